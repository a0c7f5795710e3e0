"""The engine: sandboxes by name. Here a sandbox is a record, a home, and the programs that run: it isolates nothing.

Put your own way of making sandboxes in its place: what `create`, `start`, `stop` and `remove` do, and how `exec` starts a program.
Presence is answered or `EngineUnknownError` is raised: nothing is called absent that could not be read, for that is cleaned up.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from jamcore.api import (
    Ability,
    EngineContext,
    EngineFailedError,
    EngineHealth,
    EngineUnknownError,
    ExecSpec,
    Finding,
    GuestProcess,
    InventoryItem,
    Isolation,
    Presence,
    SandboxGoneError,
    SandboxSpec,
    owned_tasks,
    require_held,
)

from jam_example_engine.program import Program

HOME = "/home/agent"
"""What the core calls the home of every guest, wherever it lies."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ExampleEngineEngine:
    """`jamcore.api.Engine` says what each method has to do."""

    def __init__(self, root: Path, name: str, isolation: Isolation, abilities: frozenset[Ability], tasks: TaskGroup) -> None:
        self.name, self.isolation, self.abilities = name, isolation, abilities
        self._root, self._tasks = root, tasks
        self._running: dict[str, set[Program]] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def probe(self) -> EngineHealth:
        """Say whether it can work here, and what to do where it cannot."""
        usable = sys.platform == "linux" and Path("/proc/self/stat").exists()
        finding = Finding(
            subject=f"engine {self.name}",
            ok=usable,
            detail="no sandbox: programs run as the user of the daemon" if usable else "it needs Linux with /proc",
            hint="" if usable else "Use another engine.",
        )
        return EngineHealth(engine=self.name, usable=usable, findings=(finding,))

    # --------------------------------------------------------------------------------------------------- life

    async def create(self, spec: SandboxSpec) -> None:
        """Make and start a sandbox. After any failure nothing of it is left."""
        async with self._alone(spec.name):
            self._require_possible(spec)
            if self._record(spec.name).exists():
                raise self._failed("create", f"a sandbox named {spec.name} exists already")
            _home(spec).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(spec)
            self._running[spec.name] = set()

    async def start(self, name: str) -> None:
        """Start a stopped sandbox; a running one is left alone."""
        async with self._alone(name):
            if self._read(name) is None:
                raise SandboxGoneError(sandbox=name)
            self._running.setdefault(name, set())

    async def stop(self, name: str) -> None:
        """End every program of the sandbox. When it returns they are gone."""
        async with self._alone(name):
            await self._end(name)

    async def remove(self, name: str) -> None:
        """Stop the sandbox and forget it. Its home lies on the disk that belongs to the core, and stays."""
        async with self._alone(name):
            await self._end(name)
            if self._read(name) is not None:
                self._record(name).unlink(missing_ok=True)

    async def presence(self, name: str) -> Presence:
        """Say whether the sandbox is running, stopped or absent."""
        if self._read(name) is None:
            return Presence.ABSENT
        return Presence.RUNNING if name in self._running else Presence.STOPPED

    async def inventory(self) -> tuple[InventoryItem, ...]:
        """Return every sandbox under this root."""
        names = sorted(path.stem for path in self._root.glob("*.json"))
        return tuple([InventoryItem(name, await self.presence(name)) for name in names])

    async def end_all(self) -> None:
        """Stop every sandbox."""
        for name in tuple(self._running):
            await self.stop(name)

    # ----------------------------------------------------------------------------------------------- programs

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        """Start a program in a running sandbox."""
        programs = self._running.get(name)
        sandbox = None if programs is None else self._read(name)
        if programs is None or sandbox is None:
            raise SandboxGoneError(sandbox=name)
        environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(_home(sandbox))}
        environment |= dict(sandbox.environment) | dict(spec.environment)
        program = await Program.start(name, spec, environment, self._tasks)
        programs.add(program)
        program.when_closed(programs.discard)
        if self._running.get(name) is not programs:  # it was stopped meanwhile
            await program.aclose()
            raise SandboxGoneError(sandbox=name)
        return program

    def python(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return a Python that every guest has, for what Jam itself runs there."""
        return sys.executable, ()

    def host_path(self, name: str, guest_path: str) -> Path:
        """Return where a path of the guest lies on the host, never through a link. The core says HOME for any home."""
        spec = self._read(name)
        if spec is not None:
            home = str(_home(spec))
            path = home + guest_path.removeprefix(HOME) if f"{guest_path}/".startswith(f"{HOME}/") else guest_path
            for place in (home, *(mount.host_path for mount in spec.mounts)):
                inside = Path(path).relative_to(place) if Path(path).is_relative_to(place) else None
                if inside is not None and Path(path).resolve() == Path(place).resolve() / inside:
                    return Path(path)
        raise self._failed("host-view", f"no place of {name} holds {guest_path}")

    # ------------------------------------------------------------------------------------------------- parts

    def _alone(self, name: str) -> anyio.Lock:
        return self._locks.setdefault(name, anyio.Lock())

    async def _end(self, name: str) -> None:
        programs = self._running.pop(name, set())
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for program in tuple(programs):
                    tasks.start_soon(program.go_with_sandbox)

    def _require_possible(self, spec: SandboxSpec) -> None:
        """Refuse what this engine does not do, before anything is made."""
        if not spec.name or "/" in spec.name or spec.name.startswith("."):
            raise self._failed("create", f"not a sandbox name: {spec.name!r}")
        if spec.clone is not None or spec.reach_ports:
            raise self._failed("create", "neither clones nor ports are among its abilities")
        require_held(spec.resources, (), engine=self.name)  # a limit is a promise: it holds none, and says so
        for mount in spec.mounts:
            if mount.guest_path != mount.host_path or not Path(mount.host_path).is_dir():
                raise self._failed("create", f"{mount.host_path} is no directory that a program sees at {mount.guest_path}")

    def _failed(self, operation: str, detail: str) -> EngineFailedError:
        return EngineFailedError(engine=self.name, operation=operation, detail=detail)

    def _record(self, name: str) -> Path:
        return self._root / f"{name}.json"

    def _write(self, spec: SandboxSpec) -> None:
        new = self._record(spec.name).with_suffix(".new")
        with new.open("w") as file:
            file.write(spec.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._record(spec.name))

    def _read(self, name: str) -> SandboxSpec | None:
        try:
            return SandboxSpec.model_validate_json(self._record(name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            detail = f"the record of {name} cannot be read: {type(error).__name__}"
            raise EngineUnknownError(engine=self.name, operation="presence", detail=detail) from error


def _home(spec: SandboxSpec) -> Path:
    return Path(spec.guest_disk) / "home"


@asynccontextmanager
async def open_engine(
    context: EngineContext, name: str, isolation: Isolation, abilities: frozenset[Ability]
) -> AsyncIterator[ExampleEngineEngine]:
    """Open the engine over its private directory; on the way out every sandbox is stopped."""
    async with owned_tasks() as tasks:
        engine = ExampleEngineEngine(context.root, name, isolation, abilities, tasks)
        try:
            yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await engine.end_all()
            tasks.cancel_scope.cancel()
