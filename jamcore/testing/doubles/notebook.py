"""A provider that keeps its conversations in a database below the guest's home, and its program (CONT-5).

A file ``forgets`` beside the database makes the program lose every word when a thread comes back, and answer as if nothing were missing.

The program is Python's standard library. It holds the database open with a write-ahead log that it never moves into the database itself,
as long as it runs. Its answer to everything is the whole conversation as the database has it, so that a test sees what came back.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import anyio

from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    ActivationPlan,
    ApprovalAnswer,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    GuestLauncher,
    GuestProcess,
    Message,
    PlanContribution,
    ProviderDescription,
    ProviderEvent,
    ProviderGoneError,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderRuntime,
    ProviderTurn,
    RuntimeRequest,
    ThreadRequest,
    ThreadState,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    hookimpl,
)

DIRECTORY = ".notebook"
DATABASE = f"{DIRECTORY}/notebook.db"
FORGETS = f"{DIRECTORY}/forgets"
SEPARATOR = " | "

START = 'for p in python3 /jam/python/bin/python3; do command -v "$p" >/dev/null && exec "$p" "$@"; done; exit 127'
PROGRAM = r"""
import json, os, sqlite3, sys, uuid
os.makedirs(sys.argv[1], exist_ok=True)
db = sqlite3.connect(sys.argv[1] + "/notebook.db", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA wal_autocheckpoint=0")
db.execute("CREATE TABLE IF NOT EXISTS thread (id TEXT PRIMARY KEY)")
db.execute("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, thread TEXT, turn TEXT, text TEXT)")

def say(**fields):
    print(json.dumps(fields), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    thread = asked.get("thread") or str(uuid.uuid4())
    if asked["do"] == "open":
        db.execute("INSERT INTO thread VALUES (?)", (thread,))
    known = db.execute("SELECT 1 FROM thread WHERE id = ?", (thread,)).fetchone()
    if not known:
        say(error="there is no such thread")
    elif asked["do"] == "turn":
        turn = str(uuid.uuid4())
        db.execute("INSERT INTO note (thread, turn, text) VALUES (?, ?, ?)", (thread, turn, asked["text"]))
        say(turn=turn)
        notes = [text for (text,) in db.execute("SELECT text FROM note WHERE thread = ? ORDER BY id", (thread,))]
        say(message=" | ".join(notes))
    else:
        if asked["do"] == "resume" and os.path.exists(sys.argv[1] + "/forgets"):
            db.execute("DELETE FROM note")
        say(thread=thread, turns=[turn for (turn,) in db.execute("SELECT turn FROM note WHERE thread = ? ORDER BY id", (thread,))])
"""


class NotebookProvider:
    """The plugin: an entry point may name it."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe: no program to fetch, no endpoint, no credential."""
        return ProviderDescription(
            name="notebook",
            title="Notebook",
            cells=DEDICATED_MANAGED_CELLS,
            toolchain=None,
            credential=None,
            default_origin=None,
            continuity=True,
            threads_share_process=True,
        )

    @hookimpl
    def jam_contribute_plan(self) -> PlanContribution:
        """Contribute nothing but the program's directory."""
        return PlanContribution(agent_image="notebook", guest_directories=(DIRECTORY,))

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Declare the database, and nothing below the state root."""
        return CaptureList(entries=(CaptureEntry(pattern=DATABASE, kind=CaptureKind.DATABASE),))

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Declare nothing: what is captured is all there is."""
        return ActivationPlan()

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept the same version."""
        return captured == current

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return the program's context."""
        return _running(request, launcher)


@asynccontextmanager
async def _running(request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ProviderRuntime]:
    argv = ("/bin/sh", "-c", START, "notebook", "-I", "-c", PROGRAM, f"{request.home}/{DIRECTORY}")
    process = await launcher.start(argv, cwd=request.home)
    try:
        yield NotebookRuntime(process)
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()


class NotebookRuntime:
    """See :class:`jamcore.api.ProviderRuntime`."""

    def __init__(self, process: GuestProcess) -> None:
        self._process = process
        self._pending = b""

    @property
    def version(self) -> str:
        """The version of the program."""
        return "unknown"

    async def closed(self) -> str:
        """Wait for the program's end."""
        await self._process.wait()
        return "the notebook's program ended"

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """Begin a thread."""
        return await self._thread({"do": "open"})

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """Bring a thread back, as the database has it."""
        return await self._thread({"do": "resume", "thread": identity})

    @asynccontextmanager
    async def turn(self, identity: ProviderIdentity, text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Note a text; the answer is the whole conversation."""
        yield self._events(identity, text)

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """Do nothing: no turn lasts."""

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """Do nothing: nothing is asked."""

    async def _events(self, identity: str, text: str) -> AsyncIterator[ProviderEvent]:
        begun = await self._ask({"do": "turn", "thread": identity, "text": text})
        yield TurnStarted(provider_turn=begun["turn"])
        yield Message(item=begun["turn"], text=(await self._read())["message"])
        yield TurnEnded(outcome=TurnOutcome.COMPLETED)

    async def _thread(self, question: dict[str, str]) -> ThreadState:
        found = await self._ask(question)
        turns = tuple(ProviderTurn(provider_turn=turn, outcome=TurnOutcome.COMPLETED) for turn in found["turns"])
        return ThreadState(identity=found["thread"], turns=turns)

    async def _ask(self, question: dict[str, str]) -> dict[str, Any]:
        try:
            await self._process.stdin.send(json.dumps(question).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ProviderGoneError(provider="notebook", detail="it reads no more") from error
        answer = await self._read()
        if "error" in answer:
            raise ProviderRefusedError(provider="notebook", request=question["do"], detail=answer["error"])
        return answer

    async def _read(self) -> dict[str, Any]:
        while b"\n" not in self._pending:
            try:
                self._pending += await self._process.stdout.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise ProviderGoneError(provider="notebook", detail="it says no more") from error
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer
