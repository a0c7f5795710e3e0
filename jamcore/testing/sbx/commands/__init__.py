"""Every command of the simulator, and those of the real program that it does not do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.testing.sbx.commands import environments, execution, kits, machine, mcp, policy, sandboxes, secrets, settings
from jamcore.testing.sbx.program.flags import Command

COMMANDS: tuple[Command, ...] = (
    *machine.COMMANDS,
    *sandboxes.COMMANDS,
    *execution.COMMANDS,
    *policy.COMMANDS,
    *secrets.COMMANDS,
    *settings.COMMANDS,
    *mcp.COMMANDS,
    *kits.COMMANDS,
    *environments.COMMANDS,
)

NOT_SIMULATED: Mapping[str, str] = MappingProxyType(
    {
        "attach": "Docker Cloud alone",
        "completion": "no sandbox needs it",
        "daemon log-level": "the log has one level",
        "kit add": "a running sandbox is not made again",
        "kit builder": "nothing is built",
        "kit pack": "no archive is made",
        "kit provenance": "nothing is signed",
        "kit pull": "nothing is pulled",
        "kit push": "nothing is pushed",
        "kit sign": "nothing is signed",
        "kit verify": "nothing is signed",
        "mcp auth": "no server is asked",
        "mcp load": "no server runs",
        "move": "Docker Cloud alone",
        "setup": "there is no ssh",
        "skills": "no skills are kept",
        "template load": "there are no images",
        "template save": "there are no images",
        "template inspect": "Docker Cloud alone",
        "ttl": "Docker Cloud alone",
        "tui": "there is no screen",
        "volume": "Docker Cloud alone",
    }
)
"""What answers with an error that says so, and why."""
