"""What ``create`` checks before it makes anything, and what it makes of what was asked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jamcore.testing.sbx import kits
from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd import clone
from jamcore.testing.sbx.sandboxd.guests import Guests, new_ident
from jamcore.testing.sbx.sandboxd.refusal import RefusedError
from jamcore.testing.sbx.sandboxd.rules import Policy, rule
from jamcore.testing.sbx.sandboxd.state import Sandbox

VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "claude": "claude-code",
        "codex": "codex",
        "copilot": "copilot",
        "cursor": "cursor-agent",
        "devin": "devin",
        "docker-agent": "docker-agent",
        "droid": "droid",
        "gemini": "gemini",
        "kiro": "kiro",
        "opencode": "opencode",
        "shell": "shell",
    }
)
"""Agents, and what the tag of their image begins with."""
MOVED = ("copilot", "droid", "kiro")
NAME = re.compile(r"^[a-zA-Z0-9][a-zA-Z0-9.-]+$")
NAME_LIMIT = 63
MEMORY = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
UNITS: Mapping[str, int] = MappingProxyType({"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40})
MEMORY_MIN = 512 << 20
MEMORY_MAX = 32 << 30


def check_name(gates: Gates, name: str) -> None:
    """Refuse what is no name.

    Raises:
        RefusedError: It is none (``create.name-regexp`` and the others).
    """
    if "+" in name:
        raise RefusedError(f"sandbox name cannot contain plus signs: {name}")
    strict = gates("create.name-strict") and (len(name) > NAME_LIMIT or name.endswith(("-", ".")))
    if not NAME.match(name) or strict:
        raise RefusedError(f"name must match regexp {NAME.pattern}: {name}")
    if name == "default":
        raise RefusedError('sandbox name "default" is reserved')


def memory_text(gates: Gates, said: str) -> str:
    """Return what is recorded of the memory.

    Raises:
        RefusedError: It is none, or too little.
    """
    if not said:
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        return f"{max(MEMORY_MIN, min(MEMORY_MAX, half)) >> 20}m"
    matched = MEMORY.fullmatch(said)
    if matched is None:
        raise RefusedError(f'invalid memory size "{said}"')
    if gates("create.memory-min") and int(matched[1]) * UNITS[matched[2].lower()] < MEMORY_MIN:
        raise RefusedError("memory must be at least 512 MiB")
    return said


async def create(guests: Guests, policy: Policy, told: Configuration, gates: Gates, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Make a sandbox of what was asked; return what is printed about it.

    Raises:
        RefusedError: It cannot be.
    """
    policy.needed()
    agent = asked["agent"]
    if agent not in VARIANTS or (agent in MOVED and gates("create.kits-moved")):
        raise RefusedError(f'unknown agent or kit "{agent}"')
    if told.bug("root-500"):
        raise RefusedError("request failed: 500 Internal Server Error: failed to create sandbox")
    paths = [str(path) for path in asked["paths"]]
    _check_paths(told, gates, paths)
    primary = paths[0] if paths else ""
    name = asked["name"] or re.sub(r"[^a-zA-Z0-9.-]", "-", f"{agent}-{Path(primary).name or 'workspace'}").rstrip("-.")
    check_name(gates, name)
    if name in guests.state.sandboxes:
        if asked["name"]:
            raise RefusedError(f'sandbox "{name}" already exists')
        how = f"use 'sbx run --name {name}' to start it, or pass --name to create another"
        raise RefusedError(f'sandbox "{name}" already exists for this workspace; {how}')
    image = asked["template"] or f"docker/sandbox-templates:{VARIANTS[agent]}-docker"
    _check_image(told, image, asked)
    found = _kits(guests, asked["kits"])
    sandbox = Sandbox(
        name=name,
        ident=new_ident(),
        agent=agent,
        workspaces=paths,
        image=image,
        cpus=asked["cpus"] or os.cpu_count() or 1,
        memory=memory_text(gates, asked["memory"]),
        env={key: value for kit in found for key, value in kit.environment.items()} | dict(asked["env"]),
        kits=list(asked["kits"]),
        static_mcp=list(asked["static_mcp"]),
        skills=asked["skills"] or "readonly",
        clone=await clone.root_of(primary) if asked["clone"] else "",
        ports=list(asked["ports"]),
    )
    if unknown := [server for server in sandbox.static_mcp if server not in guests.state.servers]:
        raise RefusedError(f'MCP server "{unknown[0]}" not found')
    if sandbox.clone:
        sandbox.workspaces[0] = sandbox.clone
    scope = f"sandbox:{name}"
    allowed = [host for kit in found for host in kit.allow]
    rules = [rule(host, scope, "allow", [host], origin="kit", editable=False, _created="provisioned") for host in allowed]
    rules += [rule(host, scope, "deny", [host], _protocols=["tcp", "udp"]) for host in asked["deny"]]
    await guests.create(sandbox)
    policy.state.rules += rules
    guests.save()
    git = next((port["host_port"] for port in sandbox.ports if port["sandbox_port"] == clone.GIT_PORT), 0)
    shown = ("agent", "workspaces", "image", "cpus", "memory", "clone", "skills")
    return {"name": name, "id": sandbox.ident, "git": git} | {key: getattr(sandbox, key) for key in shown}


def _check_paths(told: Configuration, gates: Gates, paths: list[str]) -> None:
    if not paths and not gates("create.optional-path"):
        raise RefusedError("requires at least 2 arg(s), only received 1")
    if paths and paths[0].endswith(":ro"):
        raise RefusedError("primary workspace cannot be read-only")
    for path in paths:
        plain = path.removesuffix(":ro")
        if not Path(plain).exists():
            raise RefusedError(f"workspace path does not exist: {plain}")
        if told.bug("workspace-fails") or (told.bug("dot-directory-fails") and Path(plain).name.startswith(".")):
            raise RefusedError("failed to create sandbox: failed to run sandbox container")


def _check_image(told: Configuration, image: str, asked: Mapping[str, Any]) -> None:
    known = {each.reference for each in told.images}
    if image.startswith("missing"):
        raise RefusedError(f'request failed: 403 Forbidden: pull failed for image "{image}"')
    if asked["pull"] == "never" and asked["template"] and image not in known:
        raise RefusedError(f"template '{image}' not found")


def _kits(guests: Guests, references: list[str]) -> list[kits.Kit]:
    try:
        found = [kits.resolve(reference, guests.state.settings) for reference in references]
    except kits.KitError as error:
        raise RefusedError(str(error), error.hint) from error
    return [kit for kit in found if kit is not None]
