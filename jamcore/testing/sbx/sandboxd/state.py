"""What the daemon keeps: one document of JSON, replaced in one step after every change."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "state.json"


def now() -> str:
    """Return the time as the program prints it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class Sandbox:
    """One sandbox as it is kept."""

    name: str
    ident: str
    agent: str
    workspaces: list[str]
    image: str
    cpus: int
    memory: str
    env: dict[str, str]
    kits: list[str] = field(default_factory=list)
    static_mcp: list[str] = field(default_factory=list)
    skills: str = "readonly"
    clone: str = ""
    """The repository of the host in clone mode."""
    status: str = "stopped"
    used: bool = False
    pinned: bool = False
    created_at: str = field(default_factory=now)
    last_used_at: str = field(default_factory=now)
    stopped_at: str = ""
    ports: list[dict[str, Any]] = field(default_factory=list)
    custom: list[str] = field(default_factory=list)
    """Placeholders that were known when it was made."""

    @property
    def primary(self) -> str:
        """Where commands begin."""
        return self.workspaces[0].removesuffix(":ro") if self.workspaces else "/home/agent/workspace"


@dataclass(slots=True)
class State:
    """Everything that is kept."""

    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    policy: str = ""
    secrets: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    approved: list[str] = field(default_factory=list)
    fresh: bool = True


def load(directory: Path) -> State:
    """Read it; what was running is stopped, since it ended with its daemon."""
    with suppress(FileNotFoundError):
        said = json.loads((directory / FILE).read_text(encoding="utf-8"))
        sandboxes = {name: Sandbox(**each) for name, each in said.pop("sandboxes").items()}
        for sandbox in sandboxes.values():
            sandbox.status, sandbox.pinned = "stopped", False
        return State(sandboxes=sandboxes, **said)
    return State()


def save(directory: Path, state: State) -> None:
    """Replace the document."""
    new = directory / f"{FILE}.new"
    new.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    new.replace(directory / FILE)
