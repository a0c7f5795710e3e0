"""Faults of what only some engines can do, and of limits and walls."""

from __future__ import annotations

import shutil
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import anyio

from jamcore.domain.resources import FIELDS, Holding, Limit, Means
from jamcore.domain.sandboxes import (
    Access,
    EngineFailedError,
    ExecRefusedError,
    ExecSpec,
    HostMount,
    Presence,
    Resources,
    SandboxSpec,
)
from jamcore.engines.port import FreezeReport
from jamcore.system.guest import GuestProcess
from jamcore.testing.engines.bad.proxies import BadEngine, Fault

MOST_CONNECTIONS = 64
LATE_S = 0.5
"""How long a connection on which nothing is sent is kept from who takes it."""


class _KnowsWhatIsFrozen(BadEngine):
    """Nothing is wrong with it; it knows what stands still."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.still: set[str] = set()

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[FreezeReport]:
        """See the port."""
        async with self.good.frozen(name) as report:
            self.still.add(name)
            try:
                yield report
            finally:
                self.still.discard(name)


class _StopsNothingFrozen(_KnowsWhatIsFrozen):
    """A frozen sandbox cannot be stopped."""

    async def stop(self, name: str) -> None:
        if name in self.still:
            raise EngineFailedError(engine=self.name, operation="stop", detail="it is frozen")
        await self.good.stop(name)


class _StartsNothingWhileFrozen(_KnowsWhatIsFrozen):
    """Jam's own program gets no exception."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        if name in self.still and spec.while_frozen:
            raise ExecRefusedError(sandbox=name, program=spec.argv[0], reason="frozen")
        return await super().exec(name, spec)


class _StaysFrozen(BadEngine):
    """After an error in the block the sandbox is taken for frozen for ever."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.cold: set[str] = set()

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[FreezeReport]:
        async with self.good.frozen(name) as report:
            try:
                yield report
            except BaseException:
                self.cold.add(name)
                raise

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        if name in self.cold:
            raise EngineFailedError(engine=self.name, operation="exec", detail="it is frozen")
        return await super().exec(name, spec)


class _FreezesOnce(BadEngine):
    """The second and every later freeze of a sandbox that runs is a word alone."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.frozen_before: set[str] = set()

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[FreezeReport]:
        if name in self.frozen_before and await self.good.presence(name) is Presence.RUNNING:
            yield FreezeReport(processes=2, method="hope")
            return
        self.frozen_before.add(name)
        async with self.good.frozen(name) as report:
            yield report


class _WakesEverybody(BadEngine):
    """A thaw starts every program, whoever had stopped it."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.made: list[GuestProcess] = []

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        made = await super().exec(name, spec)
        self.made.append(made)
        return made

    @asynccontextmanager
    async def frozen(self, name: str) -> AsyncIterator[FreezeReport]:
        async with self.good.frozen(name) as report:
            yield report
        for made in self.made:
            await made.signal(signal.SIGCONT)


Accept = Callable[[socket.socket], None]


class _ForgetsWhoTakes(BadEngine):
    """Whoever takes the connections of a port takes none after a stop."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.taken: set[tuple[str, int]] = set()

    def on_connection(self, name: str, port: int, accept: Accept) -> None:
        self.taken.add((name, port))
        self.good.on_connection(name, port, accept)

    async def stop(self, name: str) -> None:
        await self.good.stop(name)
        for taken, port in self.taken:
            if taken == name:
                self.good.on_connection(name, port, socket.socket.close)


class _LosesWhatIsSentFirst(BadEngine):
    """The first byte of a connection is gone before anybody takes it."""

    def on_connection(self, name: str, port: int, accept: Accept) -> None:
        async def late(end: socket.socket) -> None:
            try:
                with anyio.move_on_after(LATE_S):
                    await anyio.wait_readable(end)
                    end.recv(1)
            except BaseException:
                end.close()
                raise
            accept(end)

        self.good.on_connection(name, port, lambda end: self.tasks.start_soon(late, end))


class _RunsNothingBesideConnections(BadEngine):
    """Once the bound of connections is reached, nothing is left for a program."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.connections = Counter[str]()

    def on_connection(self, name: str, port: int, accept: Accept) -> None:
        def counted(end: socket.socket) -> None:
            self.connections[name] += 1
            accept(end)

        self.good.on_connection(name, port, counted)

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        if self.connections[name] >= MOST_CONNECTIONS:
            raise EngineFailedError(engine=self.name, operation="exec", detail="too many connections")
        return await super().exec(name, spec)


class _AnswersForNobody(BadEngine):
    """A port that nobody takes has an answer all the same."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.taken: set[tuple[str, int]] = set()

    def on_connection(self, name: str, port: int, accept: Accept) -> None:
        self.taken.add((name, port))
        self.good.on_connection(name, port, accept)

    async def create(self, spec: SandboxSpec) -> None:
        for port in spec.reach_ports:
            if (spec.name, port) not in self.taken:
                self.good.on_connection(spec.name, port, _sorry)
        await super().create(spec)


def _sorry(end: socket.socket) -> None:
    with end:
        end.send(b"502")


class _FollowsLinks(BadEngine):
    """The last part of a path may be a link, wherever it leads."""

    def host_path(self, name: str, guest_path: str) -> Path:
        found: Path
        try:
            found = self.good.host_path(name, guest_path)
        except EngineFailedError:
            above, _, last = guest_path.rpartition("/")
            found = self.good.host_path(name, above) / last
        return found


class _ClonesAtEveryStart(BadEngine):
    """Every start puts the commit's files into the clone."""

    async def start(self, name: str) -> None:
        await self.good.start(name)
        if name in self.specs and (clone := self.specs[name].clone) is not None:
            await self.run(name, "git", "-C", clone.guest_path, "checkout", "-qf")


class _TellsWhereACloneIsFrom(BadEngine):
    """A clone has its source as a remote."""

    async def create(self, spec: SandboxSpec) -> None:
        await super().create(spec)
        if spec.clone is not None:
            await self.run(spec.name, "git", "-C", spec.clone.guest_path, "remote", "add", "origin", spec.clone.host_path)


class _LeavesHalfAClone(BadEngine):
    """A clone that failed is on the disk."""

    async def create(self, spec: SandboxSpec) -> None:
        try:
            await super().create(spec)
        except EngineFailedError:
            if spec.clone is not None:
                shutil.copytree(spec.clone.host_path, f"{spec.guest_disk}/half", ignore=shutil.ignore_patterns(".git"))
            raise


class _ForgetsALimit(BadEngine):
    """It says that it holds a limit, and does not."""

    limit: ClassVar[Limit]

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        left = {**spec.resources.model_dump(), FIELDS[self.limit]: None}
        return spec.model_copy(update={"resources": Resources.model_validate(left)})

    async def holdings(self) -> tuple[Holding, ...]:
        return tuple(
            replace(holding, means=Means.ENGINE) if holding.limit is self.limit else holding
            for holding in await self.good.holdings()
        )


def _forgets(limit: Limit) -> type[BadEngine]:
    return type(f"_Forgets{limit.name.title()}", (_ForgetsALimit,), {"limit": limit})


class _HasNoRemedy(BadEngine):
    """What it does not hold it does not hold."""

    async def holdings(self) -> tuple[Holding, ...]:
        return tuple(replace(holding, remedy="") for holding in await self.good.holdings())


class _DoesWhatItCan(BadEngine):
    """A limit that it does not hold it leaves out."""

    async def create(self, spec: SandboxSpec) -> None:
        missing = {FIELDS[holding.limit]: None for holding in await self.good.holdings() if not holding.held}
        held = Resources.model_validate({**spec.resources.model_dump(), **missing})
        await super().create(spec.model_copy(update={"resources": held}))


class _ShowsItsHost(BadEngine):
    """The directory that the guest's disk lies in is in every sandbox, and everybody may read it."""

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        place = str(Path(spec.guest_disk).parent)
        shown = HostMount(host_path=place, guest_path=place, access=Access.READ_ONLY, owned=False)
        return spec.model_copy(update={"mounts": (*spec.mounts, shown)})

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        if name in self.specs:
            place = Path(self.specs[name].guest_disk).parent
            for path in (place, *place.glob("*"), *place.glob("*/*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode | (0o005 if path.is_dir() else 0o004))
        return spec

    def host_path(self, name: str, guest_path: str) -> Path:
        if name in self.specs and guest_path.startswith(str(Path(self.specs[name].guest_disk).parent)):
            raise EngineFailedError(engine=self.name, operation="host-view", detail="not shown")
        found: Path = self.good.host_path(name, guest_path)
        return found


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "stops nothing that is frozen": Fault(_StopsNothingFrozen, "a-frozen-sandbox-can-be-stopped"),
        "stays frozen": Fault(_StaysFrozen, "a-frozen-sandbox-thaws-after-an-error-and-after-cancellation"),
        "starts nothing while frozen": Fault(_StartsNothingWhileFrozen, "a-program-of-jams-own-runs-while-all-others-stand-still"),
        "freezes once": Fault(_FreezesOnce, "frozen-guests-write-nothing-and-go-on-after"),
        "wakes everybody": Fault(_WakesEverybody, "what-stood-still-before-stands-still-after"),
        "forgets who takes connections": Fault(_ForgetsWhoTakes, "connections-arrive-connected-and-half-close"),
        "loses what is sent first": Fault(_LosesWhatIsSentFirst, "connections-arrive-connected-and-half-close"),
        "runs nothing beside connections": Fault(_RunsNothingBesideConnections, "more-connections-than-the-bound-wait"),
        "answers for nobody": Fault(_AnswersForNobody, "nobody-takes-the-port-and-the-guest-sees-an-end"),
        "follows links": Fault(_FollowsLinks, "guest-files-are-found-on-the-host"),
        "clones at every start": Fault(_ClonesAtEveryStart, "a-clone-is-made-once-and-outlives-stop-and-start"),
        "tells where a clone is from": Fault(_TellsWhereACloneIsFrom, "a-clone-is-whole-private-and-ran-nothing"),
        "leaves half a clone": Fault(_LeavesHalfAClone, "a-commit-that-is-not-there-leaves-nothing"),
        "forgets a limit": Fault(_forgets(Limit.PIDS), "a-fork-bomb-stops-at-the-limit-and-can-be-ended"),
        "forgets the limit of memory": Fault(_forgets(Limit.MEMORY), "a-memory-limit-is-of-the-whole-sandbox"),
        "forgets the limit of each process": Fault(_forgets(Limit.MEMORY_PER_PROCESS), "a-limit-of-each-process-holds"),
        "forgets the limit of processors": Fault(_forgets(Limit.CPUS), "a-share-of-the-processors-holds"),
        "forgets the limit of the disk": Fault(_forgets(Limit.DISK), "a-disk-limit-holds"),
        "has no remedy": Fault(_HasNoRemedy, "every-limit-has-an-answer"),
        "does what it can": Fault(_DoesWhatItCan, "what-is-not-held-is-refused-before-anything-is-made"),
        "shows its host": Fault(_ShowsItsHost, "what-works-unconfined-is-refused-inside"),
    }
)
"""The faults by name."""
