"""``secret``: what is stored for services, registries and hosts of one's own."""

from __future__ import annotations

import os
import sys
from typing import Any

from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag

VALUE_BYTES = 1 << 16
GLOBAL = "global"
HOST_ONLY = "(host only)"


def _scope(call: Call, positional: str = "") -> str:
    if sandbox := call.flag("sandbox") or positional:
        return str(sandbox)
    return GLOBAL


def _first(call: Call) -> None:
    """Ask to import, as one version does (``secret.interactive-import``)."""
    if call.told.bug("secrets-ask-import") or call.gates("secret.interactive-import"):
        marker = call.place.make().directory / "import-asked"
        if not marker.exists():
            marker.touch()
            call.console.ask("Import credentials from your environment? (y/N): ")


def _split(call: Call) -> tuple[str, str]:
    """Return the service and a sandbox that stands before it (``secret.positional``)."""
    if len(call.args) == 2:
        if call.gates("secret.global"):
            call.console.warn("a positional sandbox is deprecated; use --sandbox")
        return call.args[1], call.args[0]
    return (call.args[0] if call.args else ""), ""


def set_(call: Call) -> None:
    """Store the secret of a service or of a registry."""
    _first(call)
    service, positional = _split(call)
    registry = call.flag("registry")
    if not service and not registry:
        raise Failure("a service is required")
    if call.flag("oauth") or call.flag("ref") or call.flag("command"):
        raise Failure("secret set: not simulated (--oauth, --ref and --command)")
    kind, name = ("registry", registry) if registry else ("service", service)
    scope = _scope(call, positional) if not registry or call.flag("sandbox") else HOST_ONLY
    taken = call.daemon.call("secret_has", service=name, scope=scope) and not call.flag("force")
    if taken and not call.console.ask(f'Secret "{name}" already exists. Overwrite? (y/N): '):
        call.console.print("Cancelled")
        return
    value = call.flag("token") or _from_input(call, f"Enter the value of {name}: ")
    call.daemon.call("secret_set", service=name, scope=scope, value=value, kind=kind)
    call.console.print(f'Saved secret "{name}" in scope {scope}')


def _from_input(call: Call, question: str) -> str:
    if os.isatty(0):
        call.console.kept.append(question)
        call.console.flush()
        return sys.stdin.readline().strip()
    return sys.stdin.buffer.read(VALUE_BYTES).decode(errors="replace").strip("\r\n")


def custom(call: Call) -> None:
    """Store a secret for hosts of one's own."""
    _first(call)
    hosts = list(call.flag("host"))
    if not hosts:
        raise Failure('required flag(s) "host" not set')
    if call.flag("ref") or call.flag("command"):
        raise Failure("secret set-custom: not simulated (--ref and --command)")
    value = call.flag("value") or call.flag("token") or _from_input(call, "Enter the value: ")
    scope, env = _scope(call), call.flag("env")
    placeholder = call.flag("placeholder")
    made = call.daemon.call("secret_custom", hosts=hosts, env=env, scope=scope, value=value, placeholder=placeholder)
    call.console.print(f'Saved custom secret placeholder "{made}" for target "{",".join(hosts)}" env "{env}" in scope "{scope}"')
    if not placeholder:
        call.console.print(f"Generated placeholder: {made}")


def ls(call: Call) -> None:
    """List what is stored, without any value."""
    _first(call)
    scope = _scope(call) if call.flag("sandbox") or call.flag("global") else ""
    found = call.daemon.call("secret_ls", scope=scope, service=call.flag("service"))
    if call.flag("json"):
        call.json(found)
        return
    stored, customs = found["secrets"], found["custom_secrets"]
    if call.flag("quiet"):
        call.console.print(*(each["name"] for each in stored))
        return
    if not stored and not customs:
        call.console.print(f'No secrets found for scope "{scope or "all"}".')
        return
    if stored:
        call.console.table(
            [("SCOPE", "TYPE", "NAME", "SECRET"), *((_shown(each), each["type"], each["name"], each["secret"]) for each in stored)]
        )
    if customs:
        call.console.print("", "CUSTOM SECRETS")
        heads = ("SCOPE", "TARGETS", "ENV", "PLACEHOLDER", "SECRET")
        rows = [(_shown(each), ",".join(each["targets"]), each["env"], each["placeholder"], each["secret"]) for each in customs]
        call.console.table([heads, *rows])


def _shown(each: dict[str, Any]) -> str:
    return "(global)" if each["scope"] == GLOBAL else str(each["scope"])


def rm(call: Call) -> int:
    """Remove what is meant."""
    _first(call)
    service, positional = _split(call)
    name = call.flag("registry") or service
    how = {
        "service": name,
        "placeholder": call.flag("placeholder"),
        "host": call.flag("host"),
        "everything": bool(call.flag("all")),
    }
    if not any(how.values()):
        raise Failure("--placeholder or --host is required")
    newer = call.gates("secret.rm-declined")
    if not call.flag("force"):
        call.console.kept.append("Delete selected secret? (y/N): ")
        call.console.flush()
        if not os.isatty(0) or sys.stdin.readline().strip().lower() not in ("y", "yes"):
            call.console.print("Cancelled")
            if newer:
                raise Failure("cancelled")
            return 0
    scope = HOST_ONLY if call.flag("registry") and not call.flag("sandbox") else _scope(call, positional)
    answer = call.daemon.call("secret_rm", scope=scope, how=how)
    if not answer["gone"]:
        if call.gates("secret.rm-missing") and not call.flag("force"):
            raise Failure(f'no secret found for "{name}" in scope "{scope}"')
        call.console.print("No secret found")
        return 0
    call.console.print(*(f'Deleted secret "{each}"' for each in answer["gone"]))
    if how["placeholder"]:
        call.console.print(f"Applied secret updates for {answer['running']} running sandbox(es)")
    return 0


def import_(call: Call) -> None:
    """Store what the caller's environment has."""
    from jamcore.testing.sbx.sandboxd.vault import SERVICES  # late: most commands need no table of services

    wanted = call.args[0] if call.args else ""
    found = {
        service: call.environment[variable]
        for service, (variable, _) in SERVICES.items()
        if call.environment.get(variable) and wanted in ("", service)
    }
    if not found:
        text = "No credential env vars detected on the host. Set e.g. OPENAI_API_KEY in your shell and re-run, "
        call.console.print(text + "or use `sbx secret set` to enter a value directly.")
        return
    for service, value in found.items():
        if call.flag("dry-run"):
            call.console.print(f"Would import {service}")
            continue
        if call.flag("force") or call.flag("all") or wanted or call.console.ask(f"Import {service}? (y/N): "):
            call.daemon.call("secret_set", service=service, scope=GLOBAL, value=value, kind="service")
            call.console.print(f"Imported {service}")


_SANDBOX, _FORCE = Flag("sandbox"), Flag("force", "f", "bool")
_FROM = (
    Flag("command"),
    Flag("ref"),
    Flag("refresh"),
    Flag("no-verify", "", "bool"),
    Flag("show-error", "", "bool"),
    Flag("token", "t"),
)
_YES = tuple(Flag(name, "", "bool") for name in ("all-sandboxes", "oauth", "password-stdin"))
_GLOBAL, _QUIET, _ALL = Flag("global", "g", "bool"), Flag("quiet", "q", "bool"), Flag("all", "", "bool")
_SET = (*_FROM, _SANDBOX, _FORCE, _GLOBAL, *_YES, *map(Flag, ("registry", "registry-auth-endpoint", "username")))
_CUSTOM = (*_FROM, _SANDBOX, Flag("host", "", "list"), *map(Flag, ("env", "value", "placeholder")))
_LS = (_SANDBOX, _GLOBAL, Flag("json", "", "bool", "secret.json"), _QUIET, Flag("service"))
_RM = (_SANDBOX, _FORCE, _GLOBAL, _ALL, _YES[0], *map(Flag, ("registry", "placeholder", "host", "env")))
COMMANDS = (
    Command("secret set", set_, _SET, 0, 2),
    Command("secret set-custom", custom, _CUSTOM),
    Command("secret ls", ls, _LS),
    Command("secret rm", rm, _RM, 0, 2),
    Command("secret import", import_, (_ALL, Flag("dry-run", "", "bool"), _FORCE), 0, 1),
)
