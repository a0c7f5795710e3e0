"""The running ``codex app-server``: threads and turns over one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from jam_codex.answers import decline, notice
from jam_codex.config import thread_settings, turn_settings
from jam_codex.description import NAME
from jam_codex.events import translate
from jam_codex.protocol import INITIALIZED, Ask, Told, is_busy, nonsense, thread_of, turn_of, turns_page, version_of
from jam_codex.questions import ASKED, Questions
from jam_codex.turns import Turn
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    JamError,
    KeptNotices,
    LineClient,
    ProgramRuntime,
    ProviderEvent,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderTimeoutError,
    ProviderTurn,
    ThreadRequest,
    ThreadState,
    identifier,
    member,
)

REQUEST_S = 60.0
"""An answer that is not a turn: resuming a thousand turns took 1.1 s."""
START_S = 10.0
"""Until a turn is accepted: milliseconds when all is well. Not interrupted by cancellation, so that no turn runs unnoticed."""
STOP_S = 5.0
"""Until an interrupted turn ends: 0.01 s when all is well."""
QUIET_S = 2.0
"""Until the commands of an interrupted turn are gone and say so."""
PAGE = 100
PAGES = 1_000
"""Turns of a thread that are listed: a hundred thousand."""

CLIENT: Mapping[str, object] = {
    "clientInfo": {"name": "jam", "title": "Jam", "version": "0.1"},
    "capabilities": {"experimentalApi": True},  # for thread/backgroundTerminals/clean
}


@dataclass
class _Thread:
    """A thread that is loaded in the program."""

    identity: str
    busy: bool = False
    turn: Turn | None = None
    notices: KeptNotices = field(default_factory=KeptNotices)
    questions: Questions | None = None
    """Where it asks before it acts; ``None``: it never does."""


def _thread(identity: str, request: ThreadRequest) -> _Thread:
    return _Thread(identity, questions=Questions() if request.approvals is ApprovalPolicy.ASK else None)


class CodexRuntime(ProgramRuntime):
    """See :class:`jamcore.api.ProviderRuntime`. Made by :func:`jam_codex.opening.open_codex`, which owns the connection."""

    def __init__(self, *, isolated: bool = True) -> None:
        super().__init__(NAME)
        self._isolated = isolated
        self._threads: dict[str, _Thread] = {}
        self._notices = KeptNotices()
        """What was said of no thread, until the next turn of any."""
        self._opening = anyio.Lock()
        """One thread is opened or resumed at a time: of eight resumes at once, one in hundreds was never answered."""

    async def begin(self, client: LineClient, expected_version: str | None) -> None:
        """Introduce Jam and learn the program's version.

        Raises:
            ProviderRefusedError: It is not the expected version, or it will not speak with Jam.
            ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
        """
        self.connect(client)
        self.require_version(version_of(await self._ask(Ask.INITIALIZE, CLIENT)), expected_version, Ask.INITIALIZE)
        await client.notify(INITIALIZED)

    # ------------------------------------------------------------------------------------------------------------ threads

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Codex writes nothing before the first turn: until then nothing can be resumed."""
        async with self._opening:
            identity = thread_of(await self._ask(Ask.THREAD_START, thread_settings(request, isolated=self._isolated)))
        if identity in self._threads:
            raise nonsense("a new thread with the id of one that is loaded")
        self._threads[identity] = _thread(identity, request)
        return ThreadState(identity=identity)

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Nothing here ever starts a thread (CONT-1).

        Another thread than the wanted one is only named: it may be a sibling's.
        """
        settings = thread_settings(request, isolated=self._isolated)
        async with self._opening:
            answer = await self._ask(Ask.THREAD_RESUME, {"threadId": identity, "excludeTurns": True, **settings})
            if (reported := thread_of(answer)) != identity:
                self._threads.pop(identity, None)
                return ThreadState(identity=reported)
            turns = await self._turns(identity)
        self._threads[identity] = _thread(identity, request)
        return ThreadState(identity=identity, turns=turns)

    async def release_thread(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ReleasesThreads`. Codex has no word for it, and resumes again what it has; no turn is taken here."""
        self._threads.pop(identity, None)

    async def _turns(self, identity: str) -> tuple[ProviderTurn, ...]:
        turns: list[ProviderTurn] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = {"threadId": identity, "sortDirection": "asc", "limit": PAGE, "itemsView": "notLoaded", "cursor": cursor}
            found, cursor = turns_page(await self._ask(Ask.TURNS_LIST, page))
            turns += found
            if cursor is None:
                return await self._with_last_text(identity, tuple(turns))
        raise nonsense(f"a thread of more than {PAGE * PAGES} turns")

    async def _with_last_text(self, identity: str, turns: tuple[ProviderTurn, ...]) -> tuple[ProviderTurn, ...]:
        """Complete the last turn with the digest of its text. Listing all of them with their items would be a whole conversation."""
        if not turns:
            return turns
        page = {"threadId": identity, "sortDirection": "desc", "limit": 1, "itemsView": "summary", "cursor": None}
        last, _ = turns_page(await self._ask(Ask.TURNS_LIST, page))
        return (*turns[:-1], *last) if [turn.provider_turn for turn in last] == [turns[-1].provider_turn] else turns

    # -------------------------------------------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self, identity: ProviderIdentity, text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """See :class:`jamcore.api.ProviderRuntime`.

        ``TurnStarted`` comes once Codex has written the person's message into the rollout. A turn that fails before that has none.

        Raises:
            ProviderRefusedError: The thread is not loaded, a turn runs in it, or Codex does not take the text.
        """
        thread = self._idle_thread(identity)
        turn = thread.turn = Turn()
        try:
            async with turn.running(partial(self._stop, thread, turn), self.end):
                await self._start(thread, turn, text)
                for notices in (self._notices, thread.notices):
                    await notices.show_in(turn)
                yield turn
        finally:
            thread.turn = None

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ProviderRuntime`. When it returns, the turn is over and its commands are gone.

        Raises:
            ProviderTimeoutError: Codex did not end the turn in time.
            ProviderRefusedError: Codex would not end the turn's background commands.
        """
        thread = self._threads.get(identity)
        if thread is not None and (turn := thread.turn) is not None:
            await turn.stop(partial(self._stop, thread, turn))

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """See :class:`jamcore.api.ProviderRuntime`."""
        thread = self._threads.get(identity)
        if thread is not None and thread.questions is not None:
            thread.questions.answer(request, answer)

    def _idle_thread(self, identity: str) -> _Thread:
        thread = self._threads.get(identity)
        problem = None
        if thread is None:
            problem = "the thread is not loaded"
        elif thread.turn is not None or thread.busy:
            # Codex would add the text to the running turn and cut the answer that is being written.
            problem = "a turn is running in this thread"
        if thread is None or problem is not None:
            raise ProviderRefusedError(provider=NAME, request=Ask.TURN_START.value, detail=problem or "")
        return thread

    async def _start(self, thread: _Thread, turn: Turn, text: str) -> None:
        message = {"threadId": thread.identity, "input": [{"type": "text", "text": text}], **turn_settings(isolated=self._isolated)}
        try:
            with anyio.CancelScope(shield=True):
                turn.accept(turn_of(await self._ask(Ask.TURN_START, message, START_S)))
        except ProviderTimeoutError:
            raise  # it may run all the same, so it is interrupted on the way out
        except JamError as error:
            turn.fail(error)
            raise

    async def _stop(self, thread: _Thread, turn: Turn) -> None:
        """End a running turn, then what it left running. Codex keeps the commands of an interrupted turn alive on its own."""
        with anyio.move_on_after(STOP_S) as limit:
            await turn.accepted.wait()
            async with anyio.create_task_group() as tasks:
                # Asked about a turn that has just ended, Codex may never answer: the end mark counts, not the answer.
                tasks.start_soon(self._ask_to_interrupt, thread, turn)
                await turn.over.wait()
                tasks.cancel_scope.cancel()
        if limit.cancelled_caught:
            raise ProviderTimeoutError(provider=NAME, request=Ask.TURN_INTERRUPT.value, limit_s=STOP_S)
        await self._ask(Ask.TERMINALS_CLEAN, {"threadId": thread.identity}, STOP_S)
        with anyio.move_on_after(QUIET_S):
            await turn.quiet()

    async def _ask_to_interrupt(self, thread: _Thread, turn: Turn) -> None:
        try:
            await self._ask(Ask.TURN_INTERRUPT, {"threadId": thread.identity, "turnId": turn.provider_turn}, STOP_S)
        except JamError:
            return  # the turn's own stream tells what became of it

    # --------------------------------------------------------------------------------------------------------- connection

    async def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification: keep the thread's state and pass the turn's events on."""
        thread = self._threads.get(identifier(params.get("threadId")))
        if thread is None:
            if "threadId" not in params:
                self._notices.keep(*translate(method, params))
            return
        if method == Told.STATUS:
            thread.busy = is_busy(params)
        turn = thread.turn
        if turn is None:
            return
        provider_turn = identifier(params.get("turnId") or member(params, "turn", "id")) or None
        if method == Told.TURN_STARTED and not turn.provider_turn and provider_turn is not None:
            turn.accept(provider_turn)
        for event in translate(method, params):
            await turn.told(event, provider_turn)
        if thread.questions is not None and method == Told.ITEM_STARTED:
            thread.questions.note(params)

    async def asked(self, method: str, params: Mapping[str, Any]) -> object:
        """Answer a request of Codex: ask a person what can be asked, where the thread asks; refuse all else, and let the turn say so."""
        thread = self._threads.get(identifier(params.get("threadId") or params.get("conversationId")))
        turn = thread.turn if thread is not None else None
        if thread is not None and thread.questions is not None and turn is not None and method in ASKED:
            return await thread.questions.ask(turn, method, params)
        if thread is not None:
            await thread.notices.say(notice(method, params), turn)
        elif len(self._threads) <= 1:  # of several sessions' threads nobody can say whose it is
            self._notices.keep(notice(method, params))
        return decline(method)

    async def ended(self, error: JamError) -> None:
        """End every running turn with the connection's error; all that came before it was passed on."""
        self.end(error, *(thread.turn for thread in self._threads.values()))

    async def _ask(self, request: Ask, params: Mapping[str, Any], timeout_s: float = REQUEST_S) -> object:
        return await self.ask(request, params, timeout_s)
