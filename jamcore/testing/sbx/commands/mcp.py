"""``mcp``: servers that are registered; none is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag


def add(call: Call) -> None:
    """Register a server."""
    url, command = call.flag("url"), call.flag("command")
    if bool(url) == bool(command):
        raise Failure("exactly one of --url and --command is required")
    kind = "remote" if url else "local"
    server = {
        "type": kind,
        "url": url,
        "command": command,
        "args": [each for text in call.flag("args") for each in text.split(",")],
    }
    call.daemon.call("mcp_add", name=call.args[0], server=server)
    call.console.print(f'MCP server "{call.args[0]}" registered (type: {kind})')


def _row(name: str, server: Mapping[str, Any]) -> dict[str, Any]:
    transport = "remote http" if server["type"] == "remote" else "stdio"
    return {"name": name, "transport": transport, "status": "ready", "type": server["type"]}


def ls(call: Call) -> None:
    """List the servers."""
    found = call.daemon.call("mcp_ls")
    if call.flag("json"):
        gateway = {
            "name": "LOCAL",
            "local": True,
            "operator": "managed by you",
            "decision": "local",
            "signed_in_as": call.told.user,
        }
        call.json({"gateway": gateway, "servers": [_row(name, server) for name, server in found.items()]})
    elif call.flag("quiet"):
        call.console.print(*found)
    elif found:
        rows = [(name, server["type"], server["url"] or server["command"]) for name, server in found.items()]
        call.console.table([("NAME", "TYPE", "URL/COMMAND"), *rows])
    else:
        call.console.print("No MCP servers registered")


def inspect(call: Call) -> None:
    """Describe one."""
    name = call.args[0]
    server = call.daemon.call("mcp_ls").get(name)
    if server is None:
        raise Failure(f"MCP server '{name}' not found")
    if call.flag("json"):
        call.json({**_row(name, server), "url": server["url"], "command": server["command"], "requires_oauth": False})
        return
    call.console.print(f"Name: {name}", f"Type: {server['type']}")
    if server["url"]:
        call.console.print(f"URL: {server['url']}", "Transport: streamable-http")
    else:
        call.console.print(f"Command: {server['command']}")


def rm(call: Call) -> None:
    """Forget one."""
    name = call.args[0]
    if call.gates("mcp.rm-missing"):
        if name not in call.daemon.call("mcp_ls"):
            raise Failure(f"MCP server '{name}' not found")
        call.console.confirm(f'Remove MCP server "{name}"? (y/N): ', force=bool(call.flag("force")))
    call.daemon.call("mcp_rm", name=name)
    call.console.print(f'MCP server "{name}" removed')


_JSON = Flag("json", "", "bool")
_ADD = (
    *map(Flag, ("url", "command", "callback-port", "client-id", "dir", "oauth-authorization-server", "resource")),
    *(Flag(name, "", "bool") for name in ("disable-http2", "local", "no-scope", "skip-auth", "skip-ssrf-check")),
    Flag("args", "", "list"),
    Flag("scope", "", "list"),
    Flag("header", "", "list", "mcp.header"),
)
COMMANDS = (
    Command("mcp add", add, _ADD, 1, 1, gate="mcp.group"),
    Command("mcp ls", ls, (_JSON, Flag("quiet", "q", "bool")), gate="mcp.group"),
    Command("mcp inspect", inspect, (_JSON,), 1, 1, gate="mcp.group"),
    Command("mcp rm", rm, (Flag("force", "f", "bool"),), 1, 1, gate="mcp.group"),
)
