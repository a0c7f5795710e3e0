"""What sessions on one host must have in common, and what each has for itself (SHARE-1, SHARE-3, SHARE-6).

A shared host is one sandbox made from one plan. A second session fits when everything host-wide that it asks for is what the host was
made with. Every field of :class:`HostInputs` says which kind it is; a contract test refuses a field that does not, and a part of a plan or
of a room's request that is in neither. So a new setting takes part in the comparison before anybody can forget it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from jamcore.domain.cells import Cell
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.plan import GuestPaths, McpServer, ModelEndpoint, Plan, PlanMount, Toolchain
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Isolation, Resources

ONE_TRUST_DOMAIN = (
    "A shared sandbox is one trust domain: its rooms see each other's processes, files and conversations. "
    "Use a dedicated sandbox for what must be kept apart."
)
"""Said wherever a shared sandbox is offered or shown (SHARE-6)."""

VALUE_CHARACTERS = 120
"""Of one value in a refusal: enough to recognise a version, an address or a path."""


class Scope(StrEnum):
    """Whose an input is."""

    HOST = "host"
    SESSION = "session"


class HostInputs(Record):
    """Everything that decides how a session runs. ``HOST``: the sandbox was made with it; ``SESSION``: each thread has its own.

    The fields of the host are those of its stored plan: they are not stored a second time, so the two cannot differ.
    """

    provider: Annotated[str, Scope.HOST]
    engine: Annotated[str, Scope.HOST]
    cell: Annotated[Cell, Scope.HOST]
    minimum_isolation: Annotated[Isolation, Scope.HOST]
    agent_image: Annotated[str, Scope.HOST]
    kits: Annotated[tuple[str, ...], Scope.HOST]
    mcp_servers: Annotated[tuple[McpServer, ...], Scope.HOST]
    mounts: Annotated[tuple[PlanMount, ...], Scope.HOST]
    environment: Annotated[tuple[tuple[str, str], ...], Scope.HOST]
    environment_files: Annotated[tuple[str, ...], Scope.HOST]
    resources: Annotated[Resources, Scope.HOST]
    endpoint: Annotated[ModelEndpoint | None, Scope.HOST]
    toolchain: Annotated[Toolchain | None, Scope.HOST]
    paths: Annotated[GuestPaths, Scope.HOST]
    model: Annotated[str | None, Scope.SESSION] = None
    approvals: Annotated[str, Scope.SESSION] = ""

    @classmethod
    def of(cls, plan: Plan, *, model: str | None = None, approvals: str = "") -> HostInputs:
        """Return the inputs of a session on a host with this plan."""
        shared = {name: getattr(plan, name) for name in cls.model_fields if name in Plan.model_fields}
        return cls(**shared, model=model, approvals=approvals)


IDENTITY_OF_PLAN = frozenset({"schema_version", "owner", "name", "primary"})
"""Parts of a plan that say which host it is, and so cannot differ between sessions of one: a Shared host's primary workspace is the
directory of all its sessions' directories (PLAN-4)."""


def scope_of(field: str, kind: type[Record] = HostInputs) -> Scope | None:
    """Return the declared scope of a field, or ``None`` when it declares none."""
    return next((mark for mark in kind.model_fields[field].metadata if isinstance(mark, Scope)), None)


@dataclass(frozen=True, slots=True)
class Difference:
    """One host-wide input in which a session differs from the host, both values bounded and without anything that could be secret."""

    field: str
    host: str
    asked: str

    def __str__(self) -> str:
        return f"{self.field}: the host has {self.host}, asked for {self.asked}"


def differences(host: HostInputs, asked: HostInputs) -> tuple[Difference, ...]:
    """Compare what is host-wide; a session's own inputs never matter."""
    names = [name for name in HostInputs.model_fields if scope_of(name) is not Scope.SESSION]
    return tuple(
        Difference(name, *_shown(name, getattr(host, name), getattr(asked, name)))
        for name in names
        if getattr(host, name) != getattr(asked, name)
    )


def require_compatible(host: HostInputs, asked: HostInputs, *, ref: str) -> None:
    """Accept a session whose host-wide inputs are the host's (SHARE-3).

    Raises:
        SharedHostIncompatibleError: With every difference.
    """
    if found := differences(host, asked):
        raise SharedHostIncompatibleError(host=ref, differs=tuple(map(str, found)))


@dataclass(eq=False)
class SharedHostIncompatibleError(RefusalError):
    """The agent's shared host was made with other host-wide inputs than this session asks for (SHARE-3)."""

    code: ClassVar[str] = "shared_host.incompatible"
    hint: ClassVar[str] = (
        "Ask for what the host has, give the room a sandbox of its own, or name another agent (`--agent NAME`): "
        "its rooms share another host."
    )

    host: str
    differs: tuple[str, ...]


@dataclass(eq=False)
class SharedHostFullError(RefusalError):
    """The provider takes no further session on this shared host now (SHARE-5)."""

    code: ClassVar[str] = "shared_host.full"
    hint: ClassVar[str] = "Stop a room of this agent, or use another agent (`--agent NAME`), then try again."

    host: str
    seats: int
    reason: str


@dataclass(eq=False)
class SharedHostContendedError(FaultError):
    """The agent's shared host appeared and went again while a room was being placed on it; nothing was made."""

    code: ClassVar[str] = "shared_host.contended"
    hint: ClassVar[str] = "Try again: somebody else is making or removing this agent's shared host."

    agent: str


def _shown(field: str, host: object, asked: object) -> tuple[str, str]:
    """Return both values as text. Of an environment's values only the beginning of a digest is shown: not secret by rule, yet unsaid."""
    if field == "environment":
        return _names(host, asked), _names(asked, host)
    return _text(host), _text(asked)


def _names(own: object, other: object) -> str:
    assert isinstance(own, tuple)
    assert isinstance(other, tuple)
    changed = (pair for pair in own if pair not in other)
    return _text([f"{name}=sha256:{hashlib.sha256(value.encode()).hexdigest()[:8]}" for name, value in changed] or "none")


def _text(value: object) -> str:
    text = json.dumps([_plain(item) for item in value], ensure_ascii=False) if isinstance(value, tuple | list) else _plain(value)
    return text if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"


def _plain(value: object) -> str:
    if isinstance(value, Cell):
        return str(value)
    if isinstance(value, Isolation):
        return value.name.lower()
    if isinstance(value, Record):
        return value.canonical_json().decode()
    return "none" if value is None else str(value)
