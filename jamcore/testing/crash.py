"""Crash points for tests: what ends a process, or fails an effect, at a named boundary (WS-12).

Every journaled action names its boundaries itself (``Action.crash_points``), so a matrix over them covers a new step on the day it is
written::

    @pytest.mark.parametrize("point", ACTION.crash_points())
    async def test_crash_matrix(point: str) -> None:
        with pytest.raises(Killed):
            await Runner(journal, KillAt(point)).run(ACTION, identifier, record)
        await Runner(journal, NoCrash()).run(ACTION, identifier, record)

A kill that is real needs a process that is. :class:`Lives` forks it from a child that has imported Jam before, which saves the second that
imports take; the fixture ``lives`` has one for the whole run::

    def test_sigkill(point: str, lives: Lives, tmp_path: Path) -> None:
        assert lives.run(live, str(tmp_path), point) == -signal.SIGKILL  # live: a function of the test's module, may be a coroutine
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pkgutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock

import anyio

from jamcore.journal.points import CrashPoints, NoCrash


class Killed(BaseException):
    """The process ended here, in effect: not an ``Exception``, so that nothing under test handles it."""


class At:
    """Does something at the ``count``-th passing of one boundary, and nothing at any other."""

    def __init__(self, point: str, effect: Callable[[], None], *, count: int = 1) -> None:
        self._point = point
        self._effect = effect
        self._left = count

    def reach(self, point: str) -> None:
        """See :meth:`CrashPoints.reach`."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._effect()


class RaiseAt(At):
    """Raises an error at a boundary."""

    def __init__(self, point: str, error: BaseException, *, count: int = 1) -> None:
        super().__init__(point, self._raise, count=count)
        self._error = error

    def _raise(self) -> None:
        raise self._error


class KillAt(RaiseAt):
    """Ends the run at a boundary within the process, by :class:`Killed`. Effects that only a real kill loses are not lost."""

    def __init__(self, point: str, *, count: int = 1) -> None:
        super().__init__(point, Killed(point), count=count)


class SigkillAt(At):
    """Ends its own process by SIGKILL at a boundary: for a child process with real files and a real database."""

    def __init__(self, point: str, *, count: int = 1) -> None:
        super().__init__(point, _end_at_once, count=count)


class Passed:
    """Notes the boundaries that were passed, for tests of which effects lie between two."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def reach(self, point: str) -> None:
        """See :meth:`CrashPoints.reach`."""
        self.points.append(point)


def _end_at_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# ------------------------------------------------------------------------------------------------------------------ lives

IMPORTED = (
    "jamcore.jamd.service",
    "jamcore.api",
    "jamcore.cli.commands.room_show",
    "jamcore.engines.bubblewrap.engine",
    "jamcore.engines.local.engine",
    "jamcore.testing.daemon_process",
    "jamcore.testing.doubles.engines",
    "jamcore.testing.jam_program",
    "jamcore.testing.matrix.lives",
    "alembic.command",
    "anyio._backends._asyncio",
    "pytest",
)
"""What lives mostly need, beside the plugins of providers. What one of them lacks it imports itself."""
LIFE_S = 60.0


class Life:
    """A process that was forked from the one that has everything imported. Its methods are those of ``subprocess.Popen``."""

    def __init__(self, process: BaseProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process
        self._lock = Lock()  # how it ended can be read once, and several threads may ask

    def poll(self) -> int | None:
        """Return how it ended, the negative number of the signal that ended it; ``None`` while it runs."""
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float = LIFE_S) -> int:
        """Wait for its end and return how it ended.

        Raises:
            TimeoutError: It goes on after ``timeout`` seconds.
        """
        connection.wait([self._process.sentinel], timeout)
        if (code := self.poll()) is None:
            raise TimeoutError(f"process {self.pid} did not end within {timeout:.0f} s")
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, to nobody when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Lives:
    """Begins processes by forking them from a child that has imported Jam.

    There is one such child for each Python process, Python's own fork server, and it ends with it. Each life has a copy of what was
    imported and nothing else: no thread, no descriptor besides the standard ones, and the environment that it is given.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        plugins = [plugin.module for plugin in entry_points(group="jam.providers")]
        self._context.set_forkserver_preload([*IMPORTED, *plugins])
        self.run(_nothing)  # so that the child is there, and no test is taken to have left it

    def begin(
        self,
        main: Callable[..., object],
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        said: Path | None = None,
        errors: Path | None = None,
    ) -> Life:
        """Begin a life: a function of a module, a coroutine too. What it returns is its exit status, ``None`` being 0.

        Args:
            main: What it does; found again in the life by its module and its name.
            *arguments: What can be pickled.
            environment: Its whole environment; this process's by default.
            said: Where its standard output goes, at the end of the file; this process's by default.
            errors: Where its standard error goes; where its output goes by default.
        """
        module = sys.modules[main.__module__]
        assert module.__file__ is not None
        root = Path(module.__file__).parents[module.__name__.count(".")]  # tests lie in no package that is installed
        variables = dict(os.environ if environment is None else environment)
        where = (str(root), f"{module.__name__}:{main.__qualname__}", variables, (said, errors or said))
        process = self._context.Process(target=_live, args=(*where, arguments), daemon=True)
        process.start()
        return Life(process)

    def run(self, main: Callable[..., object], *arguments: object, said: Path | None = None) -> int:
        """Live to the end and return how it ended.

        Raises:
            TimeoutError: It goes on after :data:`LIFE_S`; it is ended.
        """
        life = self.begin(main, *arguments, said=said)
        try:
            return life.wait()
        finally:
            life.kill()


def _nothing() -> None:
    """A life without events."""


def _live(
    root: str, name: str, variables: dict[str, str], streams: tuple[Path | None, Path | None], arguments: tuple[object, ...]
) -> None:
    """Be a life. What the fork server knew of its own place in the world is forgotten."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, said in enumerate(streams, 1):
        if said is not None:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None
    if root not in sys.path:
        sys.path.append(root)
    main = pkgutil.resolve_name(name)
    sys.exit(anyio.run(partial(main, *arguments)) if inspect.iscoroutinefunction(main) else main(*arguments))


__all__ = ["At", "CrashPoints", "KillAt", "Killed", "Life", "Lives", "NoCrash", "Passed", "RaiseAt", "SigkillAt"]
