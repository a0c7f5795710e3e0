"""The kernel's control groups: which of them this process may make groups in, and groups of its own with limits.

Both versions are used, since many machines still give the controllers out in version 1. A group is made below a *place*: for version 1
this process's own group of each controller, for version 2 the group that this process's own lies in (a group with processes of its own
can share nothing out), and in both cases nothing is touched but directories named after the owner. Everything is looked up below one
``/proc`` and what that says is mounted where, so that a test can show another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import anyio

PERIOD_US = 100_000
"""The kernel's own default period: a limit of half a processor is 50 ms of each 100 ms."""
REMOVE_TRIES, REMOVE_PAUSE_S = 100, 0.01
"""A group whose last process has ended can be removed at once; a busy kernel takes some milliseconds more."""
MEMBERS = "cgroup.procs"
SHARED_OUT = "cgroup.subtree_control"


class Controller(StrEnum):
    """What a group can limit."""

    CPU = "cpu"
    MEMORY = "memory"
    PIDS = "pids"


@dataclass(frozen=True, slots=True)
class Place:
    """Where groups with one controller can be made."""

    version: int
    directory: Path


@dataclass(frozen=True, slots=True)
class Ground:
    """What this process may use: a place for each usable controller, and the reason for each other one."""

    places: Mapping[Controller, Place]
    refused: Mapping[Controller, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one group."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None

    def controllers(self) -> tuple[Controller, ...]:
        """Return what is needed to hold them."""
        wanted = ((Controller.CPU, self.cpus), (Controller.MEMORY, self.memory_bytes), (Controller.PIDS, self.pids))
        return tuple(controller for controller, value in wanted if value is not None)


@dataclass(frozen=True, slots=True)
class Group:
    """A group that was made: its directories, one of each hierarchy. A process that writes its number into each one's members is in it."""

    directories: tuple[Path, ...]

    async def remove(self) -> tuple[Path, ...]:
        """Remove what is empty, wait a moment for what is about to be, and return what is left. Not interrupted by cancellation."""
        left = self.directories
        with anyio.CancelScope(shield=True):
            for _ in range(REMOVE_TRIES):
                left = tuple(directory for directory in left if not _removed(directory))
                if not left:
                    break
                await anyio.sleep(REMOVE_PAUSE_S)
        return left


def look(proc: Path = Path("/proc")) -> Ground:
    """Say where groups can be made. Changes nothing and never raises."""
    try:
        own = _own_groups((proc / "self/cgroup").read_text())
        mounts = _mounts((proc / "self/mountinfo").read_text())
    except (OSError, ValueError) as error:
        return Ground(
            MappingProxyType({}), MappingProxyType(dict.fromkeys(Controller, f"the control groups cannot be read: {error}"))
        )
    places: dict[Controller, Place] = {}
    refused: dict[Controller, str] = {}
    for controller in Controller:
        found = _place(controller, own, mounts)
        if isinstance(found, Place):
            places[controller] = found
        else:
            refused[controller] = found
    return Ground(MappingProxyType(places), MappingProxyType(refused))


def make(ground: Ground, owner: str, name: str, bounds: Bounds) -> Group:
    """Make the group ``name`` below the owner's own with these limits; one that a dead owner left is made anew.

    Raises:
        OSError: The kernel refuses; nothing of it is left.
        KeyError: A controller that is needed is none of the ground's.
    """
    made: list[Path] = []
    try:
        for directory, controllers in _by_directory(ground, bounds.controllers()):
            version = ground.places[controllers[0]].version
            above = directory / owner
            above.mkdir(exist_ok=True)
            if version == 2:
                _share_out(directory, controllers)
                _share_out(above, controllers)
            group = above / name
            _removed(group)
            group.mkdir()
            made.append(group)
            for controller in controllers:
                _limit(group, version, controller, bounds)
    except BaseException:
        for group in made:
            _removed(group)
        raise
    return Group(tuple(made))


def sweep(ground: Ground, owner: str) -> tuple[str, ...]:
    """Remove the owner's groups that no process is in, and return the names of those that are left."""
    left: set[str] = set()
    for directory in {place.directory for place in ground.places.values()}:
        above = directory / owner
        try:
            found = [entry for entry in above.iterdir() if entry.is_dir()]
        except OSError:
            continue  # there is none
        left.update(group.name for group in found if not _removed(group))
        _removed(above)
    return tuple(sorted(left))


def _by_directory(ground: Ground, controllers: Iterable[Controller]) -> Iterable[tuple[Path, tuple[Controller, ...]]]:
    """Group the controllers by hierarchy: version 2 has one, and version 1 may have several controllers in one."""
    found: dict[Path, list[Controller]] = {}
    for controller in controllers:
        found.setdefault(ground.places[controller].directory, []).append(controller)
    return ((directory, tuple(members)) for directory, members in found.items())


def _limit(group: Path, version: int, controller: Controller, bounds: Bounds) -> None:
    if controller is Controller.PIDS:
        _write(group / "pids.max", f"{bounds.pids}")
    elif controller is Controller.CPU:
        quota = max(1000, int((bounds.cpus or 0) * PERIOD_US))
        if version == 2:
            _write(group / "cpu.max", f"{quota} {PERIOD_US}")
        else:
            _write(group / "cpu.cfs_period_us", f"{PERIOD_US}")
            _write(group / "cpu.cfs_quota_us", f"{quota}")
    elif version == 2:
        _write(group / "memory.max", f"{bounds.memory_bytes}")
        _write_if_there(group / "memory.swap.max", "0")
    else:
        _write(group / "memory.limit_in_bytes", f"{bounds.memory_bytes}")
        _write_if_there(group / "memory.memsw.limit_in_bytes", f"{bounds.memory_bytes}")


def _share_out(directory: Path, controllers: Iterable[Controller]) -> None:
    """Let groups below have these controllers; what they have already is not written again, since not everybody may write there."""
    missing = set(controllers) - set((directory / SHARED_OUT).read_text().split())
    if missing:
        _write(directory / SHARED_OUT, " ".join(f"+{controller}" for controller in sorted(missing)))


def _write(path: Path, text: str) -> None:
    with path.open("w") as stream:  # never created: the kernel's files are there or the controller is not
        stream.write(text)


def _write_if_there(path: Path, text: str) -> None:
    """Limit swap beside memory, where the kernel counts it; without it nothing can be swapped out past the limit unseen by the group."""
    if path.exists():
        _write(path, text)


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mounted hierarchy. ``root`` is the group that lies at ``point``."""

    version: int
    root: str
    point: Path
    controllers: frozenset[str]


def _own_groups(text: str) -> Mapping[str, str]:
    """Return this process's own group of each version 1 controller, and of version 2 under the empty name."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    return own


def _mounts(text: str) -> tuple[_Mount, ...]:
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = before.split(" ")[3:5]
            found.append(_Mount(2 if kind == "cgroup2" else 1, root, Path(_plain(point)), frozenset(options.split(","))))
    return tuple(found)


def _plain(text: str) -> str:
    """Undo how mountinfo writes spaces and the like."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _place(controller: Controller, own: Mapping[str, str], mounts: tuple[_Mount, ...]) -> Place | str:
    """Return where groups with this controller can be made, or why nowhere."""
    for mount in mounts:
        if mount.version == 1 and controller in mount.controllers and controller in own:
            directory = _below(mount, own[controller])
            problem = _problem(directory, (MEMBERS,))
            return problem or Place(1, directory)
    unified = next((mount for mount in mounts if mount.version == 2), None)
    if unified is None or "" not in own:
        return "no control groups are mounted"
    mine = _below(unified, own[""])
    # The kernel's root may have processes and share out; every other group may only do one of the two.
    base = mine if not (mine / "cgroup.type").exists() else mine.parent
    if base == unified.point.parent:
        return f"{mine} has processes of its own and nothing above it is visible"
    if problem := _problem(base, (MEMBERS, SHARED_OUT) if not _shares(base, controller) else (MEMBERS,)):
        return problem
    available = (base / "cgroup.controllers").read_text().split()
    return Place(2, base) if controller in available else f"the controller {controller} is not available in {base}"


def _shares(directory: Path, controller: Controller) -> bool:
    try:
        return controller in (directory / SHARED_OUT).read_text().split()
    except OSError:
        return False


def _below(mount: _Mount, group: str) -> Path:
    """Return where a group lies on this mount, which may show a part of the hierarchy alone, as in a container."""
    inside = group if mount.root == "/" else group.removeprefix(mount.root)
    return mount.point if inside.startswith("/..") else mount.point / inside.lstrip("/")


def _problem(directory: Path, files: tuple[str, ...]) -> str | None:
    """Return why no groups can be made in a directory."""
    for path in (directory, *(directory / name for name in files)):
        if not path.exists():
            return f"{path} is not there"
        if not os.access(path, os.W_OK):
            return f"{path} may not be written"
    return None
