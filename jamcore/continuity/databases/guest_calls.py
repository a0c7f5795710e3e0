"""Runs the database helper in a sandbox, and believes nothing of what it says beyond what it was asked (CONT-5).

The helper runs beside a guest that may stop it, kill it or write in its name. So each answer is parsed strictly, all that comes is counted,
and every wait has a bound; what does not fit is a typed fault, and the process tree ends.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream

from jamcore.continuity.generations.databases import PAGES, Database
from jamcore.continuity.generations.objects import is_name
from jamcore.continuity.tree.patterns import Globs
from jamcore.domain import limits
from jamcore.domain.continuity import DatabaseBusyError, DatabaseHelperError, DatabaseRefusedError
from jamcore.domain.sandboxes import ExecRefusedError
from jamcore.system.guest import GuestProcess
from jamcore.system.trees import Names, shown

RunHelper = Callable[[tuple[str, ...]], AbstractAsyncContextManager[GuestProcess]]
"""Runs Python in the sandbox with these arguments, also while the guest stands still; nothing of it is left when the context is."""

LINE_BYTES = 10 << 10
"""Longest line of an answer: a path of 4096 bytes in hexadecimal, and some words."""
PIECE_BYTES = 1 << 20
_PLACE = "jamcore.continuity.databases.guest.place"


@dataclass(frozen=True, slots=True)
class DatabaseBounds:
    """What the helper may take, and what of it is believed."""

    databases: int = limits.DATABASES
    bytes_total: int = limits.DATABASE_BYTES
    names: int = limits.DATABASE_NAMES
    memory: int = limits.DATABASE_MEMORY
    copy_s: float = limits.DATABASE_COPY_S
    send_s: float = limits.DATABASE_SEND_S


@dataclass(frozen=True, slots=True)
class Copied:
    """One copy that was made: of which database, its size and page size in bytes, and the mode of the original."""

    path: Names
    size: int
    page: int
    mode: int


@dataclass(frozen=True, slots=True)
class GuestDatabases:
    """The databases of one guest. ``home`` is its home as it sees it; ``host`` is named in errors."""

    run: RunHelper
    home: str
    host: str
    bounds: DatabaseBounds = DatabaseBounds()

    @asynccontextmanager
    async def copying(
        self, patterns: Sequence[str], paths: Sequence[Names] = (), *, wait_s: float = 0.0, check: bool = True
    ) -> AsyncIterator[Copies]:
        """Have a helper ready to copy, and end it when the context is left.

        Args:
            patterns: What the provider declared.
            paths: What must be there besides.
            wait_s: How long a database may be locked; no time at all while the guest stands still.
            check: Whether SQLite looks through each copy.

        Raises:
            SandboxGoneError: The sandbox does not run.
            DatabaseHelperError: No helper could be started.
        """
        request = (*(f"pattern:{one}" for one in patterns), *(f"path:{b'/'.join(one).hex()}" for one in paths))
        async with self._running("copying", request, wait_s=wait_s, check=check) as process:
            answers = _Answers(process.stdout, self.host)
            with _bounded(self.bounds.copy_s, self.host):
                if (words := await answers.words()) != ["ready"]:
                    raise answers.nonsense(words)
            yield Copies(process, answers, self.bounds, Asked(patterns, paths), self.host)

    async def restore(
        self,
        databases: Sequence[Database],
        content: Callable[[Database], AsyncIterator[bytes]],
        patterns: Sequence[str],
        name: UUID,
    ) -> None:
        """Put captured databases in place; whatever else the patterns match is set aside.

        Args:
            databases: What is restored.
            content: Gives the bytes of one, and its SHA-256 in hexadecimal as the last.
            patterns: What the provider declared.
            name: Names the directory of what is replaced; newer ones sort behind older ones.

        Raises:
            DatabaseRefusedError: One cannot be written; those before it are in place, and the next attempt begins anew.
            DatabaseHelperError: The helper failed.
        """
        wanted = (f"database:{b'/'.join(one.path).hex()},{one.content.size},{one.mode}" for one in databases)
        request = (*wanted, *(f"pattern:{one}" for one in patterns), f"id:{name}")
        async with self._running("restoring", request, wait_s=0.0, check=False) as process:
            answers = _Answers(process.stdout, self.host)
            with _bounded(self.bounds.send_s, self.host):
                # A helper that refuses reads no more; its answer says why.
                with suppress(anyio.BrokenResourceError):
                    for one in databases:
                        async for data in content(one):
                            await process.stdin.send(data)
                    await process.stdin.aclose()
                words = await answers.words()
                if words != ["restored", str(len(databases))]:
                    raise answers.nonsense(words)

    async def thin_out(self) -> None:
        """Have all but the newest of what restores replaced removed. To be asked once the last restore is proven.

        Raises:
            SandboxGoneError: The sandbox does not run.
            DatabaseRefusedError, DatabaseHelperError: The helper failed; what was replaced stays until the next time.
        """
        async with self._running("restoring", (), wait_s=0.0, check=False) as process:
            answers = _Answers(process.stdout, self.host)
            with _bounded(self.bounds.copy_s, self.host):
                if (words := await answers.words()) != ["thinned"]:
                    raise answers.nonsense(words)

    @asynccontextmanager
    async def _running(self, program: str, request: Sequence[str], *, wait_s: float, check: bool) -> AsyncIterator[GuestProcess]:
        bounds = self.bounds
        numbers = (bounds.memory, int(bounds.send_s), bounds.bytes_total, bounds.names, bounds.databases, int(wait_s * 1000), check)
        source = await anyio.to_thread.run_sync(source_of, program)
        arguments = ("-I", "-S", "-c", source, self.home, ",".join(str(int(number)) for number in numbers), *request)
        async with AsyncExitStack() as stack:
            try:
                with _bounded(bounds.copy_s, self.host):
                    process = await stack.enter_async_context(self.run(arguments))
            except ExecRefusedError as error:
                problem = f"no Python could be started in the sandbox: {error.reason}"
                raise DatabaseHelperError(host=self.host, problem=problem) from error
            yield process


class Asked:
    """What was asked for: nothing else is taken."""

    def __init__(self, patterns: Sequence[str], paths: Sequence[Names]) -> None:
        self._globs = Globs(patterns)
        self._paths = frozenset(paths)

    def holds(self, path: Names) -> bool:
        """Say whether a path was asked for."""
        return path in self._paths or self._globs.matches(path)


class Copies:
    """The copies of one run."""

    def __init__(self, process: GuestProcess, answers: _Answers, bounds: DatabaseBounds, asked: Asked, host: str) -> None:
        self._process = process
        self._answers = answers
        self._bounds = bounds
        self._asked = asked
        self._host = host
        self._copied: list[Copied] = []

    async def begin(self) -> None:
        """Let the helper copy. If the guest stands still, the helper does, too: it alone goes on.

        Raises:
            DatabaseHelperError: It is gone.
        """
        try:
            with _bounded(self._bounds.copy_s, self._host):
                await self._process.signal(signal.SIGCONT)
                await self._process.stdin.send(b"go\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise DatabaseHelperError(host=self._host, problem="it ended early") from None

    async def made(self) -> tuple[Copied, ...]:
        """Wait until all copies are made; from then on the guest may go on.

        Raises:
            DatabaseRefusedError, DatabaseBusyError: One cannot be copied.
            DatabaseHelperError: The helper failed.
        """
        room = self._bounds.bytes_total
        with _bounded(self._bounds.copy_s, self._host):
            while (words := await self._answers.words())[0] == "copy":
                one = self._believed(words, room)
                room -= one.size
                self._copied.append(one)
        if words != ["copied", str(len(self._copied))]:
            raise self._answers.nonsense(words)
        return tuple(self._copied)

    async def each(self) -> AsyncIterator[tuple[Copied, AsyncIterator[bytes]]]:
        """Yield each copy with its bytes, which must be read before the next; the caller bounds the time.

        Raises:
            DatabaseRefusedError: One is damaged.
            DatabaseHelperError: The helper failed.
        """
        for one in self._copied:
            words = await self._answers.words()
            if words != ["sending", b"/".join(one.path).hex()]:
                raise self._answers.nonsense(words)
            yield one, self._answers.taken(one.size)
        if (words := await self._answers.words()) != ["done"]:
            raise self._answers.nonsense(words)

    def bounded(self) -> AbstractContextManager[None]:
        """Return the bound of sending."""
        return _bounded(self._bounds.send_s, self._host)

    def _believed(self, words: list[str], room: int) -> Copied:
        try:
            _, text, size, page, mode = words
            one = Copied(_path(text), int(size), int(page), int(mode))
        except ValueError:
            raise self._answers.nonsense(words) from None
        known = self._copied[-1].path if self._copied else ()
        believable = (
            one.path > known
            and self._asked.holds(one.path)
            and len(self._copied) < self._bounds.databases
            and 0 < one.size <= room
            and one.page in PAGES
            and one.size % one.page == 0
        )
        if not believable:
            raise self._answers.nonsense(words)
        return one


class _Answers:
    """Reads what a helper prints."""

    def __init__(self, stream: ByteReceiveStream, host: str) -> None:
        self._stream = stream
        self._host = host
        self._pending = b""

    async def words(self) -> list[str]:
        """Return the next line's words.

        Raises:
            DatabaseRefusedError, DatabaseBusyError: The line says so.
            DatabaseHelperError: There is no line, or it says that the helper failed.
        """
        while b"\n" not in self._pending:
            if len(self._pending) > LINE_BYTES:
                raise self._fault("it said something that is no answer")
            self._pending += await self._more()
        line, _, self._pending = self._pending.partition(b"\n")
        words = line.decode("ascii", "backslashreplace").split(" ")
        if words[0] in {"refused", "busy"} and len(words) > 2:
            kind = DatabaseBusyError if words[0] == "busy" else DatabaseRefusedError
            raise kind(path=_shown(words[1]), reason=" ".join(words[2:]))
        if words[0] == "failed":
            raise self._fault(" ".join(words[1:]))
        return words

    async def taken(self, count: int) -> AsyncIterator[bytes]:
        """Yield the next ``count`` bytes, in pieces that are worth a way to another thread: a pipe gives 64 KiB at a time."""
        while count:
            pieces, held = [self._pending], len(self._pending)
            while held < min(count, PIECE_BYTES):
                pieces.append(await self._more())
                held += len(pieces[-1])
            came = b"".join(pieces)
            data, self._pending = came[:count], came[count:]
            count -= len(data)
            yield data

    def nonsense(self, words: Sequence[str]) -> DatabaseHelperError:
        """Return the error for an answer that does not fit."""
        return self._fault(f"it said something that was not asked: {' '.join(words)[:80]}")

    async def _more(self) -> bytes:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._fault("it ended early") from None

    def _fault(self, problem: str) -> DatabaseHelperError:
        return DatabaseHelperError(host=self._host, problem=problem)


@contextmanager
def _bounded(seconds: float, host: str) -> Iterator[None]:
    """Bound the waiting for a helper; that it took too long is a fault of its own kind."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise DatabaseHelperError(host=host, problem=f"it did not answer within {seconds:g} s") from None


def source_of(program: str) -> str:
    """Return what Python runs in the sandbox: a module of the guest's part, with the one that all of them share under its own name."""
    place, main = ((Path(__file__).with_name("guest") / f"{name}.py").read_text() for name in ("place", program))
    shared = f"m = sys.modules[{_PLACE!r}] = type(sys)({_PLACE!r})\nexec({place!r}, m.__dict__)"
    return f"import sys\n{shared}\nexec({main!r})"


def _path(text: str) -> Names:
    """Return a path that a helper named.

    Raises:
        ValueError: It is none.
    """
    names = tuple(bytes.fromhex(text).split(b"/"))
    if len(names) > limits.CAPTURE_DEPTH or not all(is_name(name) for name in names):
        raise ValueError("not a path below the home")
    return names


def _shown(text: str) -> str:
    """Return a path of a refusal for a person; it decides nothing."""
    try:
        return f"~/{shown(_path(text))}"
    except ValueError:
        return "~"
