"""The running program: threads and turns over one connection. `jamcore.api.ProviderRuntime` says what each method has to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    JamError,
    LineClient,
    OpenQuestions,
    ProgramRuntime,
    ProviderEvent,
    ProviderGoneError,
    ProviderIdentity,
    ProviderProtocolError,
    ProviderRefusedError,
    ProviderTimeoutError,
    ProviderTurn,
    RemoteError,
    ThreadRequest,
    ThreadState,
    TurnStream,
    entries,
    identifier,
    member,
    random_id,
    reported_identity,
    text,
)

from jam_acme.description import NAME
from jam_acme.events import outcome_of, question, translate

REQUEST_S = 30.0
"""An answer that is not a turn."""
SEND_S = 10.0
"""Until a text is accepted: milliseconds when all is well."""
STOP_S = 5.0
"""Until an interrupted turn ends."""


@dataclass
class _Thread:
    """A thread that is loaded in the program."""

    identity: str
    turn: TurnStream | None = None
    questions: OpenQuestions = field(default_factory=OpenQuestions)


class AcmeRuntime(ProgramRuntime):
    """Made by `jam_acme.opening`, which owns the process and the connection."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self._threads: dict[str, _Thread] = {}
        self._connection: LineClient | None = None

    async def begin(self, client: LineClient, expected_version: str | None) -> None:
        """Learn the program's version: what the running one says, not what was installed."""
        self._connection = client
        self.connect(client)
        version = text(member(await self.ask("hello", {}, REQUEST_S), "version"), 64)
        if not version:
            raise ProviderProtocolError(provider=NAME, problem="an answer without a version")
        self.require_version(version, expected_version, "hello")

    # ------------------------------------------------------------------------------------------------------- threads

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """Begin a thread. The identity is the program's own, and no other thread's."""
        answer = await self.ask("thread/new", _settings(request), REQUEST_S)
        identity = reported_identity(member(answer, "thread"), provider=NAME)
        if identity in self._threads:
            raise ProviderProtocolError(provider=NAME, problem="a new thread with the id of one that is loaded")
        self._threads[identity] = _Thread(identity)
        return ThreadState(identity=identity)

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """Bring a thread back, exactly, and never begin one.

        Another than the wanted one is only named, for Jam to compare: it may be a sibling's.
        """
        answer = await self.ask("thread/load", {"thread": identity, **_settings(request)}, REQUEST_S)
        reported = reported_identity(member(answer, "thread"), provider=NAME)
        if reported != identity:
            self._threads.pop(identity, None)
            return ThreadState(identity=reported)
        self._threads[identity] = _Thread(identity)
        return ThreadState(identity=reported, turns=tuple(map(_turn, entries(member(answer, "turns")))))

    # --------------------------------------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self, identity: ProviderIdentity, text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Run a turn. Whoever leaves the block early interrupts it."""
        thread = self._threads.get(identity)
        if thread is None or thread.turn is not None:
            detail = "the thread is not loaded" if thread is None else "a turn is running in this thread"
            raise ProviderRefusedError(provider=NAME, request="turn", detail=detail)
        # The turn's id is Jam's, so that everything the program tells can be told apart from the first word on.
        turn = thread.turn = TurnStream(random_id())
        turn.accept(turn.provider_turn)
        try:
            async with turn.running(partial(self._stop, thread, turn), self.end):
                await self._send(thread, turn, text)
                yield turn
        finally:
            thread.turn = None

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """Stop the running turn, and return when it is over. Without one, do nothing."""
        thread = self._threads.get(identity)
        if thread is not None and (turn := thread.turn) is not None:
            await turn.stop(partial(self._stop, thread, turn))

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """Take a person's answer: this once, or no."""
        if thread := self._threads.get(identity):
            thread.questions.answer(request, answer)

    async def _send(self, thread: _Thread, turn: TurnStream, text: str) -> None:
        message = {"thread": thread.identity, "turn": turn.provider_turn, "text": text}
        try:
            with anyio.CancelScope(shield=True):  # no turn runs that nobody knows of
                await self.ask("turn", message, SEND_S)
        except ProviderTimeoutError:
            raise  # it may run all the same, so it is interrupted on the way out
        except JamError as error:
            turn.fail(error)
            raise

    async def _stop(self, thread: _Thread, turn: TurnStream) -> None:
        if self._connection is None:
            raise ProviderGoneError(provider=NAME, detail="it has not been started")
        with anyio.move_on_after(STOP_S) as limit:
            await self._connection.notify("interrupt", {"thread": thread.identity, "turn": turn.provider_turn})
            await turn.over.wait()
        if limit.cancelled_caught:
            raise ProviderTimeoutError(provider=NAME, request="interrupt", limit_s=STOP_S)

    # ---------------------------------------------------------------------------------------------------- connection

    async def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass what the program tells on to the turn that it names; what is of another thread or turn is nobody's."""
        turn = self._running(params)
        if turn is not None and (event := translate(method, params)) is not None:
            await turn.take(event)

    async def asked(self, method: str, params: Mapping[str, Any]) -> object:
        """Answer what the program asks before it acts, when a person has; the end of the turn is a no."""
        thread, turn = self._threads.get(identifier(params.get("thread"))), self._running(params)
        if method != "approve" or thread is None or turn is None:
            raise RemoteError(-32601, f"{text(method, 80)} is not offered")
        return {"allow": await thread.questions.ask(turn, question(params)) is ApprovalAnswer.ALLOW}

    async def ended(self, error: JamError) -> None:
        """End every running turn with the connection's error; all that came before it was passed on."""
        self.end(error, *(thread.turn for thread in self._threads.values()))

    def _running(self, params: Mapping[str, Any]) -> TurnStream | None:
        thread = self._threads.get(identifier(params.get("thread")))
        turn = None if thread is None else thread.turn
        return turn if turn is not None and identifier(params.get("turn")) == turn.provider_turn else None


def _settings(request: ThreadRequest) -> dict[str, object]:
    return {"cwd": request.cwd, "model": request.model, "ask": request.approvals is ApprovalPolicy.ASK}


def _turn(entry: Mapping[str, object]) -> ProviderTurn:
    """Return a turn as the program remembers it. The digest of its text lets Jam find a turn whose start it could not note."""
    digest = identifier(entry.get("digest"))
    turn, outcome = identifier(entry.get("turn")), outcome_of(entry.get("outcome"))
    return ProviderTurn(provider_turn=turn, outcome=outcome, text_digest=digest or None)
