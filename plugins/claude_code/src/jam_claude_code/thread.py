"""One thread: the program that has it, its turns, its questions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio

from jam_claude_code.description import NAME
from jam_claude_code.events import Translator
from jam_claude_code.plan import thread_directory
from jam_claude_code.protocol import (
    IDLE,
    MAY_USE_TOOL,
    STARTED,
    USER,
    Ask,
    System,
    Told,
    nonsense,
    refused,
)
from jam_claude_code.questions import not_asked, question, reply
from jam_claude_code.transcript import Remembered, holds, registered
from jam_claude_code.turns import Turn
from jamcore.api import (
    ApprovalAnswer,
    ApprovalPolicy,
    GuestLauncher,
    GuestProcess,
    JamError,
    KeptNotices,
    LineClient,
    Notice,
    OpenQuestions,
    ProviderEvent,
    ProviderGoneError,
    ProviderTimeoutError,
    RemoteError,
    RuntimeRequest,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    identifier,
    member,
    not_offered,
    number,
    random_id,
    shown,
    text,
    was_refused,
)

START_S = 60.0
"""Until the program answers its first question: 0.4 s, and 0.4 s more for a thousand turns."""
ENDED_S = 2.0
"""Until a program whose output has ended is gone."""
STOP_S = 5.0
"""Until an interrupted turn ends: 0.01 s when all is well."""
STOP_AGAIN_S = 1.0
WRITTEN_S = 5.0
"""Until a text is in the transcript: some 0.1 s after the model was asked."""
WRITTEN_AGAIN_S = 0.02
IDLE_S = 2.0
"""Until a program that ended a turn says that it is idle: at once."""

NOT_A_COMMAND = "<system-reminder>The message above is a person's, as it stands. It is no command of Claude Code.</system-reminder>"
"""Behind a text that begins with a slash, so that the program takes it for what it is: some of its commands would end the conversation."""

BY_ITSELF = "Claude Code went on by itself; the answer to this message comes after that."


class Thread:
    """A thread and its program. Started and ended by :func:`jam_claude_code.opening.running`."""

    def __init__(
        self,
        identity: str,
        request: ThreadRequest,
        runtime: RuntimeRequest,
        launcher: GuestLauncher,
        *,
        spent: Remembered,
        told_end: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.turn: Turn | None = None
        self.gone = anyio.Event()
        self.why = ""
        self._request, self._launcher, self._spent, self._told_end = request, launcher, spent, told_end
        self._directory = thread_directory(runtime.state_root, identity)
        self._questions = OpenQuestions() if request.approvals is ApprovalPolicy.ASK else None
        self._translator: Translator | None = None
        self._client: LineClient | None = None
        self._process: GuestProcess | None = None
        self._idle = anyio.Event()
        self._idle.set()
        self._notices = KeptNotices()
        self._last_words = ""

    # --------------------------------------------------------------------------------------------------------- beginning

    async def begin(self, client: LineClient, process: GuestProcess, *, resume: bool) -> str:
        """Introduce Jam and return the id of the thread that the program says it has.

        Raises:
            ProviderRefusedError: The program does not take the thread.
            ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
        """
        self._client, self._process = client, process
        asked = "resume" if resume else "open"
        try:
            answer = await client.request(Ask.INITIALIZE.value, {"hooks": None}, timeout_s=START_S)
        except RemoteError as error:
            raise refused(asked, error.message) from error
        except ProviderGoneError as error:
            with anyio.move_on_after(ENDED_S):
                if (await process.wait()).code is not None:  # else a signal ended it, and nobody refused anything
                    raise refused(asked, self._last_words or error.detail) from error
            raise
        pid = number(member(answer, "pid"))
        return await registered(self._launcher, self._directory, pid, self._request.cwd)

    # -------------------------------------------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def run(self, words: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Run a turn. See :meth:`jamcore.api.ProviderRuntime.turn`."""
        if self.turn is not None:
            # The program would keep the text and answer it in a turn of its own, which nobody waits for.
            raise refused("turn", "a turn is running in this thread")
        turn = self.turn = Turn(random_id(), look=self._look)
        self._translator = Translator(self._request.cwd, self._spent)
        try:
            async with turn.running(partial(self._stop_or_kill, turn), self._give_up):
                await self._say(turn, words)
                yield turn
        finally:
            self.turn = self._translator = None

    async def interrupt(self) -> None:
        """End the running turn with the commands that it runs.

        Raises:
            ProviderTimeoutError: The program did not end the turn in time.
            ProviderGoneError, ProviderProtocolError: The connection ended first.
        """
        if (turn := self.turn) is not None:
            await turn.stop(partial(self._stop, turn))

    async def end_turn(self) -> None:
        """End the running turn, if that is to be had: the program itself is about to be ended."""
        with suppress(JamError):
            await self.interrupt()

    def answer(self, request: str, answer: ApprovalAnswer) -> None:
        """Take Jam's answer to a question."""
        if self._questions is not None:
            self._questions.answer(request, answer)

    async def _say(self, turn: Turn, words: str) -> None:
        """Hand a person's text over once the program is idle."""
        await self._wait_until_idle(turn)
        if turn.over.is_set():
            return  # interrupted while it waited
        await self._notices.show_in(turn)
        turn.sent = True
        message = {"role": "user", "content": _content(words)}
        try:
            await self._require_client().notify(USER, {"type": USER, "message": message, "uuid": turn.provider_turn})
        except JamError as error:
            turn.fail(error)
            raise

    async def _wait_until_idle(self, turn: Turn) -> None:
        """Wait for the end of what the program began by itself, or for the end of the turn that waits for it."""
        with anyio.move_on_after(IDLE_S):
            await self._idle.wait()
            return
        self._notices.keep(Notice(level="info", text=BY_ITSELF))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_when, turn.over, tasks.cancel_scope)
            await self._idle.wait()
            tasks.cancel_scope.cancel()

    async def _look(self, turn: Turn) -> None:
        """Look whether the transcript holds the turn's text, while nothing is heard of the model."""
        if turn.begun and await self._holds(turn):
            await turn.start()

    async def _ask_to_interrupt(self) -> None:
        try:
            await self._require_client().request(Ask.INTERRUPT.value, {}, timeout_s=STOP_S)
        except JamError:
            return  # the turn's own stream tells what became of it

    async def _stop(self, turn: Turn) -> None:
        if not turn.sent:
            await turn.finish(TurnEnded(outcome=TurnOutcome.INTERRUPTED))
        with anyio.move_on_after(STOP_S):
            while True:
                # Again and again: what runs may be something else, and what the program has not begun yet it cannot interrupt.
                await self._ask_to_interrupt()
                with anyio.move_on_after(STOP_AGAIN_S):
                    await turn.over.wait()
                    return
        raise ProviderTimeoutError(provider=NAME, request=Ask.INTERRUPT.value, limit_s=STOP_S)

    async def _stop_or_kill(self, turn: Turn) -> None:
        """Interrupt what still runs. A program that does not listen is ended: what it still did would be nobody's turn."""
        try:
            await self._stop(turn)
        except JamError:
            if self._process is not None:
                await self._process.kill_tree()
            raise

    # --------------------------------------------------------------------------------------------------------- connection

    async def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a frame: keep the thread's state and pass the turn's events on."""
        if method == Told.SYSTEM:
            self._note(params)
        turn = self.turn
        if turn is not None and method == Told.LIFECYCLE and params.get("command_uuid") == turn.provider_turn:
            turn.begun = turn.begun or params.get("state") == STARTED
        if turn is None or not turn.begun:
            self._not_asked_for(method, params)
            return
        await self._begin_if_seen(turn, method, params)
        await self._pass_on(turn, method, params)

    async def _pass_on(self, turn: Turn, method: str, params: Mapping[str, Any]) -> None:
        if self._translator is None:
            return
        if method == Told.RESULT and turn.provider_turn not in _turns_of(params):
            return  # the end of something that nobody asked for
        for event in self._translator.translate(method, params):
            await turn.take(event)

    async def _begin_if_seen(self, turn: Turn, method: str, params: Mapping[str, Any]) -> None:
        """See that the transcript holds the turn's text when the model is first heard of, and say that the turn began.

        The program writes at about the time when it asks the model, and says nothing of it: also not where it cannot write. A turn that
        it ended by itself before it asked the model has no start.
        """
        if turn.started or not _heard(method, params):
            return
        with anyio.move_on_after(WRITTEN_S):
            while not (turn.over.is_set() or await self._holds(turn)):
                if method == Told.RESULT and params.get("is_error") is True:
                    return
                with anyio.move_on_after(WRITTEN_AGAIN_S):
                    await turn.over.wait()
            await turn.start()
            return
        turn.fail(nonsense("it does not keep what is said: its transcript lacks this turn"))
        if self._process is not None:
            await self._process.kill_tree()

    async def _holds(self, turn: Turn) -> bool:
        try:
            return await holds(self._launcher, self._directory, self.identity, turn.provider_turn, self._request.cwd)
        except JamError:
            return False

    def _note(self, params: Mapping[str, Any]) -> None:
        match params.get("subtype"):
            case System.STATE if params.get("state") == IDLE:
                self._idle.set()
            case System.STATE if self._idle.is_set():
                self._idle = anyio.Event()
            case System.INIT:
                said = params.get("session_id")
                if said != self.identity:
                    raise ValueError(f"it is in thread {identifier(said)!r} now")  # ends the connection, and says why

    def _not_asked_for(self, method: str, params: Mapping[str, Any]) -> None:
        """Keep what a person should know of what came while no turn ran."""
        if method == Told.RESULT:
            self._last_words = shown(params.get("errors") or params.get("result"), 2_000)

    async def asked(self, method: str, params: Mapping[str, Any]) -> object:
        """Answer a question of the program: where the thread asks, a person is; all else is refused, and the turn says so.

        Raises:
            RemoteError: It is nothing that Jam offers.
        """
        turn = self.turn
        if method == MAY_USE_TOOL and self._questions is not None and turn is not None and turn.begun:
            asked = question(params, self._request.cwd)
            return reply(params, await self._questions.ask(turn, asked) or ApprovalAnswer.DENY)
        about = text(params.get("tool_name") or params.get("message"), 200)
        await self._notices.say(was_refused("Claude Code", method, about), turn if turn is not None and turn.begun else None)
        if method == MAY_USE_TOOL:
            return not_asked()
        raise not_offered(method)

    async def ended(self, error: JamError) -> None:
        """End the running turn with the connection's error; all that came before it was passed on."""
        self._give_up(error)
        if self.turn is not None:
            self.turn.fail(error)

    def _give_up(self, error: JamError) -> None:
        """Learn that the program is of no use any more; the first reason stands."""
        self.why = self.why or str(error)
        self.gone.set()
        self._idle.set()
        self._told_end()

    def _require_client(self) -> LineClient:
        if self._client is None:
            raise ProviderGoneError(provider=NAME, detail="it has not been started")
        return self._client


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _content(words: str) -> object:
    """Return what is said to the model: the text as it is, and that it is no command where the program would take it for one."""
    if not words.lstrip().startswith("/"):
        return words
    return [{"type": "text", "text": words}, {"type": "text", "text": NOT_A_COMMAND}]


def _turns_of(params: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the turns whose end a result is."""
    turns = params.get("user_message_uuids")
    return (*turns, params.get("user_message_uuid")) if isinstance(turns, list) else (params.get("user_message_uuid"),)


def _heard(method: str, params: Mapping[str, Any]) -> bool:
    """Whether a frame shows that the model was asked."""
    return method in (Told.STREAM, Told.ASSISTANT, Told.RESULT) or (method == Told.SYSTEM and params.get("subtype") == System.RETRY)
