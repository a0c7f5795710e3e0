"""``settings``: what is set, what is not, and what would be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jamcore.testing.sbx.program.call import Call
from jamcore.testing.sbx.program.console import Failure
from jamcore.testing.sbx.program.flags import Command, Flag

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "claude.remoteControl": False,
        "clipboard.imagePaste": False,
        "env.rememberHostCommands": False,
        "feature.udp-egress": False,
        "kit.allowExtractedAgents": True,
        "kit.allowLocalKits": True,
        "kit.allowedSources": ["docker.io/"],
        "kit.ignoreTransparencyLog": False,
        "kit.requireSignature": False,
        "mcp.forceLocalGateway": False,
        "no_proxy": "",
        "platform.allowExperimentalFeatures": True,
        "platform.images.registryMirror": "",
        "platform.images.useDHI": False,
        "proxy": "",
        "sandbox.disk.dockerVolume": "10g",
        "skills.defaultMode": "readonly",
        "ssh.agentForwardingEnabled": True,
        "ssh.agentSocketPath": "",
        "tls.allowNegativeSerial": False,
    }
)
"""Those of the real keys that are known with their default."""


def _record(key: str, found: Mapping[str, Any]) -> dict[str, Any]:
    value = found.get(key, DEFAULTS[key])
    kind = {bool: "bool", str: "string", list: "list"}[type(DEFAULTS[key])]
    return {"key": key, "value": value, "source": "override" if key in found else "default", "type": kind, "default": DEFAULTS[key]}


def _known(call: Call) -> str:
    key = call.args[0]
    if key not in DEFAULTS:
        raise Failure(f'unknown setting "{key}"', "sbx settings ls")
    return key


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def get(call: Call) -> None:
    """Print one."""
    key = _known(call)
    found = _record(key, call.daemon.call("settings"))
    if call.flag("json"):
        call.json(found)
    else:
        call.console.print(_text(found["value"]))


def ls(call: Call) -> None:
    """Print all."""
    told = call.daemon.call("settings")
    rows = [_record(key, told) for key in DEFAULTS]
    if call.flag("json"):
        call.json({"settings": rows})
        return
    call.console.table([("KEY", "VALUE", "SOURCE"), *((row["key"], _text(row["value"]), row["source"]) for row in rows)])


def set_(call: Call) -> None:
    """Set one."""
    key, text = _known(call), call.args[1]
    default = DEFAULTS[key]
    value: Any = text
    if not isinstance(default, str):
        try:
            value = json.loads(text)
        except ValueError:
            value = [each for each in text.split(",") if each]
        if not isinstance(value, type(default)):
            raise Failure(f'invalid value "{text}" for setting "{key}"')
    call.daemon.call("setting", key=key, value=value)
    call.console.print(f"{key}={_text(value)} source=override")


def unset(call: Call) -> None:
    """Take one back."""
    key = _known(call)
    call.daemon.call("setting", key=key, unset=True)
    call.console.print(f"{key}={_text(DEFAULTS[key])} source=default")


_JSON = Flag("json", "", "bool")
COMMANDS = (
    Command("settings get", get, (_JSON,), 1, 1),
    Command("settings ls", ls, (_JSON, Flag("no-trunc", "", "bool"))),
    Command("settings set", set_, (), 2, 2),
    Command("settings unset", unset, (), 1, 1),
)
