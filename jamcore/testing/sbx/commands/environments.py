"""``env``: a file that says what a sandbox is to be, a plan that is approved, and commands that run on the host."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jamcore.testing.sbx import yaml
from jamcore.testing.sbx.commands import execution
from jamcore.testing.sbx.commands.sandboxes import port, told_of
from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag

COMMAND_S = 300.0
PHASES = ("initialize", "postCreate", "preRemove")
KEYS = frozenset(
    [
        "schemaVersion",
        "agent",
        "name",
        "args",
        "kits",
        "workspace",
        "additionalWorkspaces",
        "env",
        "sandboxOptions",
        "secrets",
        "bindings",
        "registries",
        "mcp",
        "ports",
        "lifecycle",
    ]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file says, and what has to be done for it."""

    path: Path
    spec: dict[str, Any]
    name: str
    workspace: str
    there: bool
    lines: tuple[tuple[str, str], ...]
    host: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def digest(self) -> str:
        """What is approved."""
        return hashlib.sha256(json.dumps([str(self.path), self.spec], sort_keys=True).encode()).hexdigest()


def _load(call: Call, *, removing: bool = False) -> Plan:
    place = Path(os.path.abspath(call.args[0] if call.args else "."))  # noqa: PTH100 - links stay as they are
    path = place / ("sbxenv.yaml" if call.gates("env.file") else ".sbxenv.yaml") if place.is_dir() else place
    try:
        spec = yaml.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Failure(f"no environment file found at {path}") from error
    except yaml.YamlError as error:
        raise Failure(f"{path}: {error}") from error
    if not isinstance(spec, dict) or "agent" not in spec or str(spec.get("schemaVersion")) != "1":
        raise Failure(f'{path}: schemaVersion "1" and agent are required')
    if unknown := sorted(spec.keys() - KEYS):
        raise Failure(f"{path}: field {unknown[0]} not found in type env.File")
    values = {key: str((each or {}).get("default", "")) for key, each in (spec.get("args") or {}).items()}
    values |= dict(pair.partition("=")[::2] for pair in call.flag("env-arg"))
    spec = _filled(spec, {**{f"args.{key}": value for key, value in values.items()}, "env.projectDir": str(path.parent)})
    said = spec.get("workspace") or "."
    workspace = str((path.parent / (said["path"] if isinstance(said, dict) else said)).resolve())
    name = call.flag("name") or spec.get("name") or re.sub(r"[^a-zA-Z0-9.-]", "-", f"{spec['agent']}-{Path(workspace).name}")
    there = any(row["name"] == name for row in call.daemon.call("ls"))
    host = _host(call, spec, removing=removing)
    return Plan(path, spec, name, workspace, there, _lines(spec, name, there=there, removing=removing), host)


def _filled(value: Any, values: dict[str, str]) -> Any:  # noqa: ANN401 - any part of the document
    """Put values in place of ``${{ … }}``.

    Raises:
        Failure: One is not known.
    """
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if not isinstance(value, str):
        return value

    def put(matched: re.Match[str]) -> str:
        key = matched[1].removeprefix("env.args.") if matched[1].startswith("env.args.") else matched[1]
        for known in (key, f"args.{key}"):
            if known in values:
                return values[known]
        raise Failure(f"unknown reference {matched[0]}")

    return re.sub(r"\$\{\{\s*([\w.]+)\s*\}\}", put, value)


def _host(call: Call, spec: dict[str, Any], *, removing: bool) -> tuple[tuple[str, dict[str, Any]], ...]:
    if call.flag("skip-host-commands"):
        return ()
    phases = PHASES[2:] if removing else PHASES[:2]
    lifecycle = spec.get("lifecycle") or {}
    return tuple((phase, each) for phase in phases for each in lifecycle.get(phase) or ())


def _lines(spec: dict[str, Any], name: str, *, there: bool, removing: bool) -> tuple[tuple[str, str], ...]:
    mark = "-" if removing else "~" if there else "+"
    if removing and not there:
        return ()
    found = [(mark, f"sandbox {name} ({spec['agent']})")]
    found += [(mark, f"secret {service}") for service in spec.get("secrets") or {}]
    found += [(mark, f"mcp server {each['name']}") for each in (spec.get("mcp") or {}).get("servers") or ()]
    found += [(mark, f"port {each['sandbox']}") for each in spec.get("ports") or ()]
    return tuple(found)


def _show(call: Call, plan: Plan) -> None:
    counts = {mark: sum(each == mark for each, _ in plan.lines) for mark in "+~-"}
    print_ = call.console.print
    print_("── LOAD ENVIRONMENT", f"   {plan.path}", "── ENVIRONMENT PLAN", *(f"{mark}  {text}" for mark, text in plan.lines))
    print_(*(f">  {phase}: {each['command']}" for phase, each in plan.host))
    print_(f"   Plan: + {counts['+']} to add, ~ {counts['~']} to change, - {counts['-']} to destroy.")
    if plan.host:
        print_("   this plan runs commands on this machine, outside the sandbox, with your own privileges")
        if not _remembered(call, plan):
            print_("   ✓ not approved yet; applying asks once")


def _remembered(call: Call, plan: Plan, *, remember: bool = False) -> bool:
    setting = call.daemon.call("settings").get("env.rememberHostCommands", False)
    return bool(setting) and bool(call.daemon.call("approve", digest=plan.digest, remember=remember))


def plan(call: Call) -> None:
    """Show the plan."""
    _show(call, _load(call))


def _approved(call: Call, plan: Plan, *, force: bool) -> None:
    """Ask, unless it was approved or is forced.

    Raises:
        Failure: The answer is no, or there is nobody to ask.
    """
    _show(call, plan)
    if force or (plan.host and _remembered(call, plan)):
        return
    if not os.isatty(0):
        raise Failure(
            "stdin is not a terminal; use --auto-approve to skip approval"
            if call.flag("auto-approve") is False
            else "stdin is not a terminal; use --force to skip confirmation"
        )
    if not call.console.ask("   Approve this plan? [y/N] "):
        raise Failure("plan not approved")
    _remembered(call, plan, remember=True)


def create(call: Call) -> None:
    """Make what the file says."""
    _apply(call)


def _apply(call: Call) -> Plan:
    plan = _load(call)
    _approved(call, plan, force=bool(call.flag("auto-approve")))
    _commands(call, plan, "initialize")
    _secrets(call, plan)
    if not plan.there:
        made = call.daemon.call("create", **_asked(call, plan))
        told_of(call, made)
    _commands(call, plan, "postCreate")
    return plan


def _asked(call: Call, plan: Plan) -> dict[str, Any]:
    options = plan.spec.get("sandboxOptions") or {}
    extra = [
        str((plan.path.parent / each["path"]).resolve()) + (":ro" if each.get("readOnly") else "")
        for each in plan.spec.get("additionalWorkspaces") or ()
    ]
    said = plan.spec.get("workspace")
    servers = (plan.spec.get("mcp") or {}).get("servers") or ()
    known = call.daemon.call("mcp_ls") if servers else {}
    for each in servers:
        if each["name"] not in known:
            server = {
                "type": "remote" if each.get("url") else "local",
                "url": each.get("url", ""),
                "command": each.get("command", ""),
            }
            call.daemon.call("mcp_add", name=each["name"], server=server | {"args": each.get("args") or []})
    ports = [f"{each.get('hostIP', '127.0.0.1')}:{each.get('host', 0)}:{each['sandbox']}" for each in plan.spec.get("ports") or ()]
    return {
        "agent": plan.spec["agent"],
        "paths": [plan.workspace, *extra],
        "name": plan.name,
        "cpus": int(options.get("cpus") or 0),
        "memory": str(options.get("memory") or ""),
        "env": {key: str(value) for key, value in (plan.spec.get("env") or {}).items()},
        "kits": [each if isinstance(each, str) else each["source"] for each in plan.spec.get("kits") or ()],
        "deny": [],
        "ports": [port(each) for each in ports],
        "clone": bool(call.flag("clone") or (isinstance(said, dict) and said.get("clone"))),
        "skills": str(options.get("skills") or ""),
        "static_mcp": [],
        "template": str(options.get("template") or ""),
        "pull": str(options.get("pullPolicy") or ""),
    }


def _secrets(call: Call, plan: Plan) -> None:
    """Store the file's secrets, before there is a sandbox: they stay where it cannot be made (``env.secrets-left``).

    Raises:
        Failure: A command fails, or the secret is somewhere else.
    """
    for service, each in (plan.spec.get("secrets") or {}).items():
        if "command" in each:
            value = _output(call, plan, service, each["command"])
        elif "value" in each:
            value = str(each["value"])
        else:
            raise Failure("env: not simulated (a secret by ref)")
        call.daemon.call("secret_set", service=service, scope=plan.name, value=value.strip("\n"), kind="service", ahead=True)


def _output(call: Call, plan: Plan, service: str, command: str) -> str:
    """Return what a secret's command prints; newer versions run it in a directory of its own (``env.secret-directory``)."""
    with tempfile.TemporaryDirectory() as place:
        cwd = place if call.gates("env.secret-directory") else plan.path.parent
        done = subprocess.run(("/bin/sh", "-c", command), cwd=cwd, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    if done.returncode:
        raise Failure(f"secret {service}: command failed: exit status {done.returncode}")
    return done.stdout


def _commands(call: Call, plan: Plan, phase: str) -> None:
    """Run the file's commands of one phase on the host.

    Raises:
        Failure: One fails.
    """
    call.console.flush()
    told = {
        "SBX_LIFECYCLE_PHASE": phase,
        "SBX_ENV_FILE": str(plan.path),
        "SBX_ENV_FILES": str(plan.path),
        "SBX_ENV_DIR": str(plan.path.parent),
        "SBX_SANDBOX_NAME": plan.name,
        "SBX_AGENT": plan.spec["agent"],
        "SBX_WORKSPACE": plan.workspace,
    }
    for _, each in (pair for pair in plan.host if pair[0] == phase):
        command = each["command"]
        argv = command if isinstance(command, list) else ["/bin/sh", "-c", command]
        cwd = plan.path.parent / each.get("workdir", ".")
        timeout = float(str(each.get("timeout") or COMMAND_S).rstrip("s"))
        try:
            done = subprocess.run(
                argv, cwd=cwd, env={**call.environment, **told}, stdin=subprocess.DEVNULL, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Failure(f"lifecycle {phase}: {each.get('name', command)}: timed out") from error
        if done.returncode:
            raise Failure(f"lifecycle {phase}: {each.get('name', command)}: exit status {done.returncode}")


def run(call: Call) -> None:
    """Make what the file says, and keep it running; a session is not simulated.

    Raises:
        Failure: It would be a session.
    """
    if not (call.flag("detach") or call.flag("detached")):
        raise Failure("env run: not simulated (a session of an agent)")
    call.console.print(call.daemon.call("pin", name=_apply(call).name))


def exec_(call: Call) -> int:
    """Run a program in the file's sandbox."""
    if not call.parsed.rest:
        raise Failure("a command is required after --")
    found = _load(call)
    if not found.there:
        raise Failure(f"sandbox '{found.name}' not found", "sbx env create")
    call.parsed.args = [found.name, *call.parsed.rest]
    return execution.execute(call)


def rm(call: Call) -> None:
    """Remove what the file made."""
    plan = _load(call, removing=True)
    _approved(call, plan, force=bool(call.flag("force")))
    _commands(call, plan, "preRemove")
    if plan.there:
        call.daemon.call("rm", name=plan.name)
        call.console.print(f"Sandbox '{plan.name}' removed")


_FILE = (Flag("name"), Flag("env-arg", "", "list"), Flag("env-args-file", "", "list"))
_MAKE = (
    *_FILE,
    Flag("clone", "", "bool"),
    Flag("kit-arg", "", "list"),
    Flag("kit-args-file", "", "list"),
    Flag("skip-host-commands", "", "bool"),
)
_APPROVE = Flag("auto-approve", "y", "bool")
_EXEC = tuple(flag for flag in execution.COMMANDS[0].flags)
_RM = (*_FILE, Flag("force", "f", "bool"), Flag("prune-bindings", "", "bool"), Flag("skip-host-commands", "", "bool"))
COMMANDS = (
    Command("env plan", plan, _MAKE, 0, None, gate="env.group"),
    Command("env create", create, (*_MAKE, _APPROVE), 0, None, gate="env.group"),
    Command(
        "env run", run, (*_MAKE, _APPROVE, Flag("detach", "d", "bool"), Flag("detached", "", "bool")), 0, None, gate="env.group"
    ),
    Command("env exec", exec_, (*_EXEC, *_FILE), 0, None, gate="env.group"),
    Command("env rm", rm, _RM, 0, None, gate="env.group"),
)
