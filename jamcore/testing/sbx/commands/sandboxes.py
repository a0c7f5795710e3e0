"""``create``, ``run``, ``ls``, ``inspect``, ``stop``, ``rm``, ``prune``, ``ports`` and ``cp``."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag

SPEC = re.compile(r"(?:(?:([\d.]+|\[[\da-f:]+\]):)?(\d+):)?(\d+)(?:/(tcp|tcp4|tcp6|udp|udp4|udp6))?")


# ---------------------------------------------------------------------------------------------------- create and run


def asked(call: Call, agent: str, paths: list[str]) -> dict[str, Any]:
    """Return what ``create`` asks the daemon for.

    Raises:
        Failure: A flag cannot be used.
    """
    if call.flag("branch"):
        raise Failure("--branch is no longer supported; use --clone instead")
    if (skills := call.flag("skills")) and skills not in ("off", "readonly", "readwrite"):
        raise Failure(f'invalid skills mode "{skills}"; expected off, readonly or readwrite')
    if (pull := call.flag("pull")) not in ("", "always", "missing", "never"):
        raise Failure(f'invalid pull policy "{pull}"; expected always, missing or never')
    return {
        "agent": agent,
        "paths": [_absolute(path) for path in paths],
        "name": call.flag("name"),
        "cpus": call.flag("cpus") or 0,
        "memory": call.flag("memory"),
        "env": environment(call, [*call.flag("env-file")], [*call.flag("env")]),
        "kits": list(call.flag("kit")),
        "deny": [each for text in call.flag("deny-network") for each in text.split(",")],
        "ports": [port(text) for text in call.flag("publish")],
        "clone": bool(call.flag("clone")),
        "skills": call.flag("skills"),
        "static_mcp": [each for text in call.flag("static-mcp") for each in text.split(",")],
        "template": call.flag("template"),
        "pull": pull,
    }


def _absolute(path: str) -> str:
    plain = path.removesuffix(":ro")
    return os.path.abspath(plain) + path[len(plain) :]  # noqa: PTH100 - links stay as they are


def environment(call: Call, files: list[str], pairs: list[str]) -> dict[str, str]:
    """Return the variables of files and of ``KEY=VALUE`` or ``KEY``; the latter takes the caller's own.

    Raises:
        Failure: A file cannot be read.
    """
    found = {}
    for file in files:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise Failure(f"open {file}: no such file or directory") from error
        pairs = [*(line.strip() for line in lines if line.strip() and not line.startswith("#")), *pairs]
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if equals:
            found[key] = value
        elif key in call.environment:
            found[key] = call.environment[key]
    return found


def create(call: Call) -> None:
    """Make a sandbox."""
    made = call.daemon.call("create", **asked(call, call.args[0], call.args[1:]))
    if not call.flag("quiet"):
        told_of(call, made)


def told_of(call: Call, made: Mapping[str, Any]) -> None:
    """Print what was made, as this version does."""
    name, workspaces = made["name"], made["workspaces"]
    print_ = call.console.print
    if made["clone"]:
        print_(f"✓ Git repository detected: {made['clone']}")
    shown = workspaces[0] + " (rw)" if workspaces else "none · no workspace bind mount"
    summary = [("sandbox", name), ("agent", made["agent"]), ("workspace", shown), ("image", made["image"])]
    summary += [("cpu", str(made["cpus"])), ("memory", made["memory"])]
    if call.gates("create.output-plain"):
        print_(*(f"{key.ljust(11)}{value}" for key, value in summary), "")
        print_("Checking image" if call.flag("pull") == "never" else "Pulling image", "✓ Image ready")
        if made["clone"]:
            print_(f"  Git daemon: git://127.0.0.1:{made['git']}/{Path(made['clone']).name}", f"  Remote: sandbox-{name}")
        print_(f"✓ Created sandbox {name}")
        if made["clone"]:
            print_(f"  mount  {made['clone']} → /run/sandbox/source (ro, source)")
    elif call.gates("create.output-sections"):
        print_("── RESOLVE SETUP", "   resolving configuration…")
        print_(*(f"     {key.ljust(11)}{value}" for key, value in summary), "   ✓ configuration resolved")
        print_("── PREPARE IMAGE", f"   → pull {made['image']}", "   ✓ image ready", f"✓ Created sandbox {name}")
    else:
        print_(f"Creating new sandbox '{name}'...", f"✓ Created sandbox '{name}'")
        print_(f"  Workspace: {workspaces[0] if workspaces else ''} (direct mount)", f"  Agent: {made['agent']}")
        print_("", "To connect to this sandbox, run:", f"  sbx run {name}")
        return
    print_("", "To connect to this sandbox, run:", f"  sbx run --name {name}")


def run(call: Call) -> None:
    """Make a sandbox or take the named one; a session needs a terminal and is not simulated.

    Raises:
        Failure: It would be a session.
    """
    name = call.flag("name")
    rows = {row["name"]: row for row in call.daemon.call("ls")}
    if call.flag("detach") or call.flag("detached"):
        if call.flag("rm"):
            raise Failure("--rm cannot be used with --detach")
        if name in rows:
            if call.args and call.args[0] != rows[name]["agent"]:
                raise Failure(f'sandbox \'{name}\' was created for the "{rows[name]["agent"]}" agent, not "{call.args[0]}"')
            call.console.print(call.daemon.call("pin", name=name))
            return
        if not call.args:
            raise Failure(f"sandbox '{name}' not found" if name else "an agent is required", "sbx ls")
        call.console.print(call.daemon.call("create", **asked(call, call.args[0], call.args[1:] or [str(Path.cwd())]))["id"])
        return
    if not os.isatty(0):
        raise Failure("the input device is not a TTY")
    raise Failure("run: not simulated (a session of an agent)")


# ---------------------------------------------------------------------------------------------------- looking


def ls(call: Call) -> None:
    """List the sandboxes."""
    rows = call.daemon.call("ls")
    if call.flag("json"):
        call.json({"sandboxes": rows})
        return
    if call.flag("quiet"):
        call.console.print(*(row["name"] for row in rows))
        return
    if not rows:
        call.console.print("No sandboxes found.")
        return
    first = "SANDBOX" if call.gates("ls.sandbox-column") else "NAME"
    call.console.table(
        [
            (first, "AGENT", "STATUS", "PORTS", "WORKSPACE"),
            *(
                (
                    row["name"],
                    row["agent"],
                    row["status"],
                    ", ".join(_port(each) for each in row.get("ports", ())),
                    ", ".join(row["workspaces"]) + (" (missing)" if row.get("workspace_missing") else ""),
                )
                for row in rows
            ),
        ]
    )


def _port(each: Mapping[str, Any]) -> str:
    return f"{each['host_ip']}:{each['host_port']}->{each['sandbox_port']}/{each['protocol']}"


def inspect(call: Call) -> None:
    """Describe one sandbox."""
    found = call.daemon.call("inspect", name=call.args[0])
    if call.flag("json"):
        call.json(found)
        return
    call.console.table([(f"{key}:", str(value)) for key, value in found.items()])


# ---------------------------------------------------------------------------------------------------- stop, rm, prune


def stop(call: Call) -> None:
    """Stop sandboxes."""
    for name in call.args:
        call.daemon.call("stop", name=name)
        text = f"Sandbox '{name}' stopped"
        if not call.gates("stop.text"):
            text += "; state preserved."
        if call.gates("stop.restart-hint"):
            text += f" Restart with: sbx run --name {name}"
        call.console.print(text)


def rm(call: Call) -> int:
    """Remove sandboxes.

    Raises:
        Failure: One is not there, or nobody confirmed.
    """
    if not call.args and not call.flag("all"):
        raise Failure("requires at least 1 arg(s), only received 0")
    names = [row["name"] for row in call.daemon.call("ls")] if call.flag("all") else list(call.args)
    for name in names:
        if call.told.bug("rm-missing-ok") and call.flag("force"):
            try:
                call.daemon.call("find", name=name)
            except Failure:
                call.console.say(f"Error: sandbox '{name}' not found")
                return 0
        call.daemon.call("find", name=name)
        call.console.confirm(f"Remove sandbox '{name}'? (y/N): ", force=bool(call.flag("force")))
    for name in names:
        _remove(call, name, deleting=call.gates("rm.deleting"))
    return 0


def _remove(call: Call, name: str, *, deleting: bool) -> None:
    if deleting:
        call.console.print(f"Deleting sandbox {name}...")
    clone = call.daemon.call("rm", name=name)
    call.console.print(f"Sandbox '{name}' removed")
    if clone:
        call.console.print(f"To recover work: git branch <local-name> refs/sandboxes/{name}/<branch>")


def prune(call: Call) -> None:
    """Remove the stopped sandboxes."""
    from jamcore.testing.sbx.sandboxd.methods import before  # late: the daemon's modules take long to import
    from jamcore.testing.sbx.sandboxd.refusal import RefusedError

    if call.flag("json") and not call.flag("dry-run"):
        raise Failure("--json can only be used with --dry-run")
    try:
        until = before(call.flag("filter").removeprefix("until=")) if call.flag("filter") else ""
    except RefusedError as refused:
        raise Failure(refused.text) from refused
    found = call.daemon.call("prunable", until=until)
    if call.flag("dry-run"):
        if call.flag("json"):
            call.json({"would_remove": found, "skipped_unknown_stop": []})
        else:
            call.console.print(*(f"Would remove {row['name']}" for row in found))
        return
    call.console.confirm(f"Remove {len(found)} stopped sandbox(es)? (y/N): ", force=bool(call.flag("force")))
    for row in found:
        _remove(call, row["name"], deleting=True)


# ---------------------------------------------------------------------------------------------------- ports and cp


def port(text: str) -> dict[str, Any]:
    """Read ``[[HOST_IP:]HOST_PORT:]SANDBOX_PORT[/PROTO]``.

    Raises:
        Failure: It is none.
    """
    matched = SPEC.fullmatch(text)
    if matched is None or (matched[4] or "tcp").startswith("udp") or matched[4] == "tcp6":
        raise Failure(f'invalid port specification "{text}"')
    return {
        "host_ip": matched[1] or "127.0.0.1",
        "host_port": int(matched[2] or 0),
        "sandbox_port": int(matched[3]),
        "protocol": "tcp4",
    }


def ports(call: Call) -> None:
    """List, publish and take back ports."""
    name = call.args[0]
    for text in call.flag("publish"):
        made = call.daemon.call("publish", name=name, port=port(text))
        call.console.print(f"Published {made['host_ip']}:{made['host_port']} -> {made['sandbox_port']}/tcp4")
    for text in call.flag("unpublish"):
        call.daemon.call("unpublish", name=name, port=port(text))
        call.console.print(f"Unpublished {text}")
    if call.flag("publish") or call.flag("unpublish"):
        return
    found = call.daemon.call("ports", name=name)
    if call.flag("json"):
        call.json(found)
    elif found:
        rows = [(each["host_ip"], str(each["host_port"]), str(each["sandbox_port"]), each["protocol"]) for each in found]
        call.console.table([("HOST IP", "HOST PORT", "SANDBOX PORT", "PROTOCOL"), *rows])
    else:
        call.console.print("No published ports")


def cp(call: Call) -> None:
    """Copy between the host and a sandbox's home or a workspace of it.

    Raises:
        Failure: The sides are wrong, or the place is not one that is kept.
    """
    source, target = (re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9.-]+):(/.*)", text) for text in call.args)
    if source and target:
        raise Failure("copying between sandboxes is not supported", "sbx cp --help")
    if not source and not target:
        raise Failure("exactly one of source and destination must be SANDBOX:PATH", "sbx cp --help")
    inside = source or target
    assert inside is not None
    found = call.daemon.call("up", name=inside[1])
    place = _on_disk(inside[2], found)
    one, other = (place, Path(call.args[1])) if source else (Path(call.args[0]), place)
    if not one.exists():
        raise Failure(f"{call.args[0]}: no such file or directory")
    other = other / one.name if other.is_dir() else other
    if not other.parent.is_dir():
        raise Failure("tar extract failed")
    if one.is_dir():
        shutil.copytree(one, other, symlinks=not call.flag("follow-link"), dirs_exist_ok=True)
    else:
        shutil.copy(one, other, follow_symlinks=bool(call.flag("follow-link")))


def _on_disk(path: str, found: Mapping[str, Any]) -> Path:
    """Return where a path of the guest lies on the host; a link of the guest's is not followed out of it."""
    roots = {"/home/agent": found["home"], **{each.removesuffix(":ro"): each.removesuffix(":ro") for each in found["workspaces"]}}
    plain = os.path.normpath(path)
    for inside, outside in roots.items():
        if plain == inside or plain.startswith(f"{inside}/"):
            place = Path(outside + plain[len(inside) :])
            if not place.resolve().is_relative_to(Path(outside).resolve()):
                raise Failure(f"{path}: not simulated (a link out of what is kept)")
            return place
    raise Failure(f"{path}: not simulated (outside the home and the workspaces)")


CREATE = (
    Flag("clone", "", "bool"),
    Flag("branch"),
    Flag("cpus", "", "int"),
    Flag("memory", "m"),
    Flag("env", "e", "list", "create.env"),
    Flag("env-file", "", "list", "create.env"),
    Flag("kit", "", "list"),
    Flag("kit-arg", "", "list", "create.kit-arg"),
    Flag("kit-args-file", "", "list", "create.kit-arg"),
    Flag("deny-network", "", "list", "create.deny-network"),
    Flag("name"),
    Flag("profile"),
    Flag("publish", "p", "list", "create.publish"),
    Flag("pull"),
    Flag("skills", "", "text", "create.skills"),
    Flag("static-mcp", "", "list", "create.static-mcp"),
    Flag("template", "t"),
)
COMMANDS = (
    Command("create", create, (*CREATE, Flag("quiet", "q", "bool")), 1, None),
    Command(
        "run",
        run,
        (*CREATE, Flag("detach", "d", "bool"), Flag("detached", "", "bool"), Flag("rm", "", "bool", "auto-stop.pinned")),
        0,
        None,
    ),
    Command("ls", ls, (Flag("json", "", "bool"), Flag("quiet", "q", "bool"))),
    Command("inspect", inspect, (Flag("json", "", "bool"),), 1, 1),
    Command("stop", stop, (), 1, None),
    Command("rm", rm, (Flag("all", "", "bool"), Flag("force", "f", "bool")), 0, None),
    Command("prune", prune, (Flag("dry-run", "", "bool"), Flag("filter"), Flag("force", "f", "bool"), Flag("json", "", "bool"))),
    Command("ports", ports, (Flag("json", "", "bool"), Flag("publish", "", "list"), Flag("unpublish", "", "list")), 1, 1),
    Command("cp", cp, (Flag("follow-link", "L", "bool"),), 2, 2),
)
