"""Faults of what outlives a sandbox's programs: its disk, and the host's directories in it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import Access, EngineFailedError, ExecSpec, ExitStatus, HostMount, Presence, SandboxSpec
from jamcore.system.guest import GuestProcess
from jamcore.testing.engines.bad.proxies import BadEngine, BadProcess, Fault


class _RemovesMounts(BadEngine):
    """What was mounted goes with the sandbox."""

    async def remove(self, name: str) -> None:
        there = await self.good.presence(name) is not Presence.ABSENT
        await self.good.remove(name)
        for mount in self.specs[name].mounts if there and name in self.specs else ():
            shutil.rmtree(mount.host_path)


class _RemovesTheDisk(BadEngine):
    """The guest's disk goes with the sandbox."""

    async def remove(self, name: str) -> None:
        there = await self.good.presence(name) is not Presence.ABSENT
        await self.good.remove(name)
        if there and name in self.specs:
            shutil.rmtree(self.specs[name].guest_disk)


class _KeepsTemporaryFiles(BadEngine):
    """The guest's ``/tmp`` is a directory that outlives every start."""

    place = "/tmp"  # noqa: S108 - the guest's own

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        kept = Path(f"{spec.guest_disk}-tmp")
        kept.mkdir(exist_ok=True)
        mount = HostMount(host_path=str(kept), guest_path=self.place, access=Access.READ_WRITE)
        return spec.model_copy(update={"mounts": (*spec.mounts, mount)})

    def host_path(self, name: str, guest_path: str) -> Path:
        if guest_path.startswith(self.place):
            raise EngineFailedError(engine=self.name, operation="host-view", detail="not shown")
        found: Path = self.good.host_path(name, guest_path)
        return found


class _LosesTheHome(BadEngine):
    """The second and every later stop of a sandbox empties its home."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.stops = Counter[str]()

    async def stop(self, name: str) -> None:
        await self.good.stop(name)
        self.stops[name] += 1
        if self.stops[name] >= 2:
            for path in Path(self.good.host_path(name, GUEST_HOME)).iterdir():
                path.unlink()


class _BringsFilesLater(BadEngine):
    """What a program makes in a mount that it works in is on the host when the sandbox stops."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        mounts = self.specs[name].mounts if name in self.specs else ()
        places = [Path(mount.host_path) for mount in mounts if mount.guest_path == spec.cwd]
        before = frozenset(places[0].iterdir()) if places else frozenset[Path]()
        made: GuestProcess = await self.good.exec(name, spec)
        return _Working(made, name, spec, self, places[0], before) if places else made


class _Working(BadProcess):
    def __init__(
        self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine, place: Path, before: frozenset[Path]
    ) -> None:
        super().__init__(good, name, spec, engine)
        self.place = place
        self.before = before

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        later = self.place.with_name(f"{self.place.name}-later")
        later.mkdir(exist_ok=True)
        for path in frozenset(self.place.iterdir()) - self.before:
            path.rename(later / path.name)
        return status


class _MountsEverythingToBeWritten(BadEngine):
    """A read-only mount can be written."""

    def sandbox(self, spec: SandboxSpec) -> SandboxSpec:
        mounts = tuple(mount.model_copy(update={"access": Access.READ_WRITE}) for mount in spec.mounts)
        return spec.model_copy(update={"mounts": mounts})


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "removes mounts": Fault(_RemovesMounts, "removal-leaves-mounts-as-they-are"),
        "removes the disk": Fault(_RemovesTheDisk, "removal-leaves-the-disk-to-its-owner"),
        "keeps temporary files": Fault(_KeepsTemporaryFiles, "temporary-places-are-empty-after-a-start"),
        "loses the home": Fault(_LosesTheHome, "the-disk-stays-and-everything-else-goes"),
        "brings files later": Fault(_BringsFilesLater, "a-mount-is-the-hosts-own-directory"),
        "mounts everything to be written": Fault(_MountsEverythingToBeWritten, "mounts-are-where-and-what-the-plan-says"),
    }
)
"""The faults by name."""
