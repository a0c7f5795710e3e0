"""The engine port: what every engine does, and the abilities that only some have.

An engine is opened once per daemon (``EnginePlugin.open``), owns everything below its private root directory, and is closed with
the daemon. Presence is answered or :class:`~jamcore.domain.sandboxes.EngineUnknownError` is raised; no error, time-out or empty answer
of a sick engine ever becomes "absent". Every call is bounded by its caller; an engine cleans up after a cancelled call.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from jamcore.domain.cells import Ability
from jamcore.domain.resources import Holding
from jamcore.domain.sandboxes import (
    CloneSource,
    EngineHealth,
    ExecSpec,
    InventoryItem,
    Isolation,
    Presence,
    SandboxSpec,
)
from jamcore.system.guest import GuestProcess


class Engine(Protocol):
    """Makes, runs, parks and removes sandboxes, by name.

    An engine with HOST_PATHS gets specifications in which each mount's guest path is its host path, and the
    clone's lies on the guest disk; one with HOST_HOME has the home at ``<guest disk>/home``.
    """

    @property
    def name(self) -> str:
        """The engine's plugin name."""

    @property
    def isolation(self) -> Isolation:
        """What stands between its guests and the host."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it can do beyond this Protocol; each ability's own Protocol is then implemented by the same object."""

    async def probe(self) -> EngineHealth:
        """Say whether the engine can work here. Read-only; never raises for a missing engine (CAP-1)."""

    async def create(self, spec: SandboxSpec) -> None:
        """Make and start a sandbox. After any failure, cancellation included, nothing of it runs and no record of it is left.

        Raises:
            EngineUnavailableError: The machine refuses, with the setting to change.
            EngineFailedError: A sandbox of this name exists already, or it did not start.
        """

    async def start(self, name: str) -> None:
        """Start a stopped sandbox as it was created; a running one is left alone.

        Raises:
            SandboxGoneError: No sandbox of this name exists.
        """

    async def stop(self, name: str) -> None:
        """End every process of the sandbox and keep its disk (park). Returns when they are gone; idempotent."""

    async def remove(self, name: str) -> None:
        """Stop the sandbox and forget it; mounts stay as they are. Idempotent.

        With KEEPS_DISK the guest's home and clone stay too, on the guest disk that belongs to the core. Without it they go with the
        sandbox, and the core looks at the clone before it asks for that (OWN-9).
        """

    async def presence(self, name: str) -> Presence:
        """Say whether the sandbox is running, stopped or absent.

        Raises:
            EngineUnknownError: It cannot be said.
        """

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """Return every sandbox of this engine under this root, by name.

        Raises:
            EngineUnknownError: It cannot be said.
        """

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """Start a process in a running sandbox.

        Raises:
            SandboxGoneError: The sandbox is not running.
            ExecRefusedError: The program could not be started.
        """


@dataclass(frozen=True, slots=True)
class FreezeReport:
    """How many guest processes were stopped, and how."""

    processes: int
    method: str


@runtime_checkable
class Freezes(Protocol):
    """FREEZE: hold every guest process still while bytes are read (CONT-2).

    A process of ``ExecSpec.while_frozen`` starts and runs all the same; one that was started before goes on when it is sent SIGCONT. Every
    other start waits for the end.
    """

    def frozen(self, name: str) -> AbstractAsyncContextManager[FreezeReport]:
        """Stop all guest processes for the duration of the context; they run again after it, also after an error.

        Raises:
            SandboxGoneError: The sandbox is not running.
        """


@runtime_checkable
class Reaches(Protocol):
    """REACH: connections that a guest makes to one of ``SandboxSpec.reach_ports`` arrive as host sockets.

    Nothing listens on the host and no host socket is visible in the guest: the pair is handed over already connected.
    """

    def on_connection(self, name: str, port: int, accept: Callable[[socket.socket], None]) -> None:
        """Hand every connection to the guest's ``127.0.0.1:port`` to ``accept``, until the sandbox stops.

        ``accept`` is called on the event loop with a connected, non-blocking stream socket that it then owns. At most 64 at once;
        further connections wait in the guest. Must be set before ``start`` or ``create`` and survives a stop and start.
        """


@runtime_checkable
class HostView(Protocol):
    """HOST_VIEW: the guest's files can be read on the host without asking the guest.

    :data:`~jamcore.domain.plan.GUEST_HOME` names the home on every engine, wherever it lies.
    """

    def host_path(self, name: str, guest_path: str) -> Path:
        """Return where ``guest_path`` lies on the host, following the sandbox's mounts, never a symbolic link of the guest.

        Raises:
            EngineFailedError: No mount holds the path.
        """


@runtime_checkable
class BringsPython(Protocol):
    """The engine shows a Python of its own in every sandbox: what Jam runs in a guest does not depend on what the guest has installed."""

    def python(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return where a guest finds it, and the variables that it needs."""


@runtime_checkable
class Proves(Protocol):
    """The engine keeps ``SandboxSpec.proof`` with the sandbox, in a place of its own that no guest can write (OWN-8)."""

    async def proof(self, name: str) -> str:
        """Return the proof that the sandbox was created with; empty when there was none.

        Raises:
            SandboxGoneError: No such sandbox.
            EngineUnknownError: It cannot be said.
        """


@runtime_checkable
class Clones(Protocol):
    """CLONE: ``SandboxSpec.clone`` is honoured by ``create``."""

    async def inspect_clone(self, name: str) -> CloneSource:
        """Return what the clone was made from.

        Raises:
            SandboxGoneError: No such sandbox, or it has no clone.
        """


@runtime_checkable
class LimitsResources(Protocol):
    """RESOURCES: ``SandboxSpec.resources`` is honoured by ``create`` and ``start``, or refused."""

    async def holdings(self) -> tuple[Holding, ...]:
        """Say for each limit whether it holds on this machine now, and by which means. Read-only; never raises.

        Called before a creation and by the doctor. What is not held here, ``create`` and ``start`` refuse with
        :class:`~jamcore.domain.resources.LimitNotHeldError` before they make anything: a limit is a promise, never an attempt.
        """


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What the daemon gives an engine: private directories that it owns, and the user its guests should run as.

    ``root`` (0700, durable) is the engine's own record; ``runtime`` (0700, short path, emptied at start) holds sockets and pipes.
    ``host`` is where the engine's server runs, if it has one and that is not this machine; ``storage_volume`` is the volume that holds
    the app directory, where both run in containers side by side. Both come from the settings, and only from there (ENG-3).
    """

    root: Path
    runtime: Path
    host: str | None = None
    storage_volume: str | None = None


class EnginePlugin(Protocol):
    """What an entry point of the group ``jam.engines`` names: a class, constructed without arguments once per daemon."""

    api_version: tuple[int, int]
    name: str
    isolation: Isolation
    abilities: frozenset[Ability]

    def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
        """Return the engine for a daemon. Entering must not fail because the machine lacks something: ``probe`` says so."""


__all__ = [
    "BringsPython",
    "Clones",
    "Engine",
    "EngineContext",
    "EnginePlugin",
    "FreezeReport",
    "Freezes",
    "GuestProcess",
    "HostView",
    "LimitsResources",
    "Proves",
    "Reaches",
]
