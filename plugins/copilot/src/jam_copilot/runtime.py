"""The running ``copilot-runtime``: sessions and turns over one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio

from jam_copilot.config import EVERYTHING, approves_all, session_settings
from jam_copilot.description import NAME
from jam_copilot.events import Translator
from jam_copilot.history import Remembered, remembered
from jam_copilot.protocol import (
    EVENT,
    Ask,
    Event,
    Task,
    Told,
    event_of,
    in_use,
    message_of,
    nonsense,
    running_tasks,
    session_of,
    version_of,
)
from jam_copilot.questions import only_reads, question, refused, reply
from jam_copilot.sweep import Guest
from jam_copilot.thread import Thread, Turn
from jamcore.api import (
    ApprovalAnswer,
    JamError,
    LineClient,
    Notice,
    ProgramRuntime,
    ProviderEvent,
    ProviderIdentity,
    ProviderRefusedError,
    ProviderTimeoutError,
    ThreadRequest,
    ThreadState,
    identifier,
    member,
    not_offered,
    was_refused,
)

REQUEST_S = 60.0
"""An answer that is not a turn: resuming a hundred turns took 0.14 s."""
SEND_S = 10.0
"""Until a message or an answer is acknowledged: milliseconds when all is well. A message is not interrupted by cancellation, so that no
turn runs unnoticed."""
ACCEPT_S = 30.0
"""Until an acknowledged message is in the conversation: 0.2 s in a new session. Without an end Copilot waits for a broken configuration."""
STOP_S = 5.0
"""Until an interrupted turn ends: 0.02 s when all is well."""
AGAIN_S = 0.5
"""Then it is interrupted again: what ended in the background meanwhile may have begun a round more."""
PAUSE_S = 0.02
QUIET_S = 2.0
"""Until what it left running is ended."""
IN_USE = "another program has this session open"


class CopilotRuntime(ProgramRuntime):
    """See :class:`jamcore.api.ProviderRuntime`. Made by :func:`jam_copilot.opening.open_copilot`, which owns the connection."""

    def __init__(self, *, relay_url: str, isolated: bool, guest: Guest) -> None:
        super().__init__(NAME)
        self._relay_url, self._isolated, self._guest = relay_url, isolated, guest
        self._threads: dict[str, Thread] = {}

    async def begin(self, client: LineClient, expected_version: str | None) -> None:
        """Learn the program's version.

        Raises:
            ProviderRefusedError: It is not the expected version, or it will not speak with Jam.
            ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not come up.
        """
        self.connect(client)
        self.require_version(version_of(await self._ask(Ask.CONNECT, {})), expected_version, Ask.CONNECT)

    async def clear(self) -> None:
        """End what the sessions left running; the program itself would let what is detached live on."""
        with suppress(JamError), anyio.move_on_after(QUIET_S):
            for thread in self._threads.values():
                await self._end_commands(thread)

    # ------------------------------------------------------------------------------------------------------------ threads

    async def open_thread(self, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Copilot writes nothing before the first turn: until then nothing can be resumed.

        The id is Copilot's own: creating one that exists would begin again from nothing, in the same journal.
        """
        if request.model is None:
            detail = "with an endpoint of one's own Copilot has no model to begin with: name one"
            raise ProviderRefusedError(provider=NAME, request=Ask.CREATE.value, detail=detail)
        identity = session_of(await self._ask(Ask.CREATE, self._settings(request)))
        if identity in self._threads:
            raise nonsense("a new session with the id of one that is loaded")
        await self._load(identity, request)
        return ThreadState(identity=identity)

    async def resume_thread(self, identity: ProviderIdentity, request: ThreadRequest) -> ThreadState:
        """See :class:`jamcore.api.ProviderRuntime`. Nothing here ever creates a session (CONT-1).

        Refused is also what another program has open, since Copilot would let both write, and a journal with a line that cannot be read,
        since Copilot would leave it out. The files are then as they were. Whatever does not come back, for whichever reason, is let go:
        what is loaded is in use, and could not be brought back. Another session than the wanted one is only named: it may be a sibling's.
        """
        if in_use(await self._ask(Ask.CHECK_IN_USE, {"sessionIds": [identity]}), identity):
            raise self._refusal(IN_USE)
        try:
            answer = await self._ask(Ask.RESUME, {"sessionId": identity, **self._settings(request)})
            reported = session_of(answer)
            if reported == identity:
                found = await self._recalled(answer, identity)
                await self._load(identity, request)
                return ThreadState(identity=identity, turns=found.turns)
        except BaseException:
            await self._let_go(identity)
            raise
        await self._let_go(identity)
        if reported not in self._threads:
            await self._let_go(reported)
        return ThreadState(identity=reported)

    async def release_thread(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ReleasesThreads`."""
        await self._let_go(identity)

    async def _let_go(self, identity: str) -> None:
        """Have a session in the program no longer. One that is not there is passed over."""
        self._threads.pop(identity, None)
        with anyio.CancelScope(shield=True), suppress(JamError):  # a connection that ended lets all of them go
            await self._ask(Ask.DETACH, {"sessionId": identity}, STOP_S)

    async def _recalled(self, answer: object, identity: str) -> Remembered:
        if member(answer, "transcriptRecovery") is not None:
            raise self._refusal("a line of its journal cannot be read, and what it said would be lost")
        found = await remembered(self._ask, identity)
        if found.in_use:
            raise self._refusal(IN_USE)
        return found

    async def _load(self, identity: str, request: ThreadRequest) -> None:
        allowed = approves_all(request)
        if allowed:
            await self._ask(Ask.PERMIT, {"sessionId": identity, **EVERYTHING})
        self._threads[identity] = Thread(identity, request.cwd, not allowed, Translator(request.cwd))

    def _settings(self, request: ThreadRequest) -> dict[str, object]:
        return session_settings(request, relay_url=self._relay_url, isolated=self._isolated)

    def _refusal(self, detail: str) -> ProviderRefusedError:
        return ProviderRefusedError(provider=NAME, request=Ask.RESUME.value, detail=detail)

    # -------------------------------------------------------------------------------------------------------------- turns

    @asynccontextmanager
    async def turn(self, identity: ProviderIdentity, text: str) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """See :class:`jamcore.api.ProviderRuntime`.

        ``TurnStarted`` comes once the person's message is in the journal on disk; Copilot alone writes it a tenth of a second later.

        Raises:
            ProviderRefusedError: The thread is not loaded, a turn runs in it, or Copilot does not take the text.
            ProviderTimeoutError: Copilot did not begin.
        """
        thread = await self._idle_thread(identity)
        turn = thread.turn = Turn()
        try:
            async with turn.running(partial(self._stop, thread, turn), self.end):
                await self._start(thread, turn, text)
                yield turn
        finally:
            thread.turn = None
            thread.open.clear()

    async def interrupt(self, identity: ProviderIdentity) -> None:
        """See :class:`jamcore.api.ProviderRuntime`. When it returns, the turn is over and its commands are gone.

        Raises:
            ProviderTimeoutError: Copilot did not end the turn in time.
        """
        thread = self._threads.get(identity)
        if thread is not None and (turn := thread.turn) is not None:
            await turn.stop(partial(self._stop, thread, turn))

    async def answer(self, identity: ProviderIdentity, request: str, answer: ApprovalAnswer) -> None:
        """See :class:`jamcore.api.ProviderRuntime`."""
        thread = self._threads.get(identity)
        if thread is not None and request in thread.open:
            thread.open.discard(request)
            with suppress(ProviderRefusedError):  # it is not open any more
                await self._decide(thread, request, answer)

    async def _idle_thread(self, identity: str) -> Thread:
        thread = self._threads.get(identity)
        problem = "the thread is not loaded"
        if thread is not None:
            # Copilot would queue the text, and give both turns one end.
            problem = "a turn is running in this thread"
            if thread.turn is None:
                with anyio.move_on_after(STOP_S):
                    await thread.calm.wait()  # what it began by itself is being stopped
                if thread.calm.is_set():
                    return thread
        raise ProviderRefusedError(provider=NAME, request=Ask.SEND.value, detail=problem)

    async def _start(self, thread: Thread, turn: Turn, text: str) -> None:
        try:
            with anyio.CancelScope(shield=True):
                message = message_of(await self._ask(Ask.SEND, {"sessionId": thread.identity, "prompt": text}, SEND_S))
            await self._accepted(thread, turn)
            if turn.provider_turn not in ("", message):
                raise nonsense("another message than the one that was sent came into the conversation")
            if turn.provider_turn:
                await self._ask(Ask.SAVE, {"sessionId": thread.identity})
                await turn.start()
            await thread.notices.show_in(turn)
        except JamError as error:
            turn.fail(error)
            raise
        finally:
            turn.saved.set()

    async def _accepted(self, thread: Thread, turn: Turn) -> None:
        """Wait until the message is in the conversation. What the agent had just begun by itself comes to its end before."""
        while not turn.accepted.is_set():
            with anyio.move_on_after(ACCEPT_S):
                await turn.accepted.wait()
            if not turn.accepted.is_set() and thread.calm.is_set():
                await self._give_up(thread)
                raise ProviderTimeoutError(provider=NAME, request=Ask.SEND.value, limit_s=ACCEPT_S)

    async def _give_up(self, thread: Thread) -> None:
        """Take a message back that Copilot does not begin with, and what it may be waiting for."""
        with suppress(JamError):
            await self._ask(Ask.ABORT, {"sessionId": thread.identity}, STOP_S)
            await self._guest.sweep()

    async def _stop(self, thread: Thread, turn: Turn) -> None:
        """End a running turn and what it left running. A turn lasts as long as a command that it started in the background."""
        with anyio.move_on_after(STOP_S) as limit:
            with anyio.move_on_after(AGAIN_S):
                await turn.accepted.wait()  # before that there is nothing that could be interrupted
            with anyio.move_on_after(AGAIN_S):
                while thread.translator.detaches:  # noqa: ASYNC110 - interrupted just then, Copilot would forget what it has started
                    await anyio.sleep(PAUSE_S)
            while not turn.over.is_set():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._ask_to_stop, thread)  # the end mark counts, not the answer
                    with anyio.move_on_after(AGAIN_S):
                        await turn.over.wait()
                    tasks.cancel_scope.cancel()
        if limit.cancelled_caught:
            raise ProviderTimeoutError(provider=NAME, request=Ask.ABORT.value, limit_s=STOP_S)
        await self._end_commands(thread)

    async def _ask_to_stop(self, thread: Thread) -> None:
        """End the commands, then the turn: after an abort Copilot does not end what is detached any more."""
        with suppress(JamError):  # the turn's own stream tells what became of it
            await self._cancel_commands(thread)
            await self._ask(Ask.ABORT, {"sessionId": thread.identity}, STOP_S)

    async def _end_commands(self, thread: Thread) -> None:
        """End what runs in the background of a session. Copilot does not end a detached command that had just begun: then Jam does."""
        with anyio.move_on_after(QUIET_S), suppress(ProviderRefusedError):
            if await self._cancel_commands(thread):
                left = await self._cancel_commands(thread)
                await self._guest.end_groups(tuple(task.process for task in left if task.process is not None))

    async def _cancel_commands(self, thread: Thread) -> tuple[Task, ...]:
        """Return what was running."""
        tasks = running_tasks(await self._ask(Ask.LIST_TASKS, {"sessionId": thread.identity}, STOP_S))
        for task in tasks:
            await self._ask(Ask.CANCEL_TASK, {"sessionId": thread.identity, "id": task.id}, STOP_S)
        return tasks

    # --------------------------------------------------------------------------------------------------------- connection

    async def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification: keep the thread's state and pass the turn's events on."""
        thread, event = self._threads.get(identifier(params.get("sessionId"))), event_of(params.get("event"))
        if method != EVENT or thread is None or event is None:
            return
        match event.kind:
            case Told.USER_MESSAGE if thread.turn is not None and not thread.turn.accepted.is_set():
                thread.turn.accept(identifier(event.data.get("messageId")))
                await thread.turn.saved.wait()  # what comes after it stands behind the turn's start
            case Told.TURN_START:
                thread.begins()
                if thread.turn is None or thread.turn.over.is_set():
                    await self._stop_by_itself(thread)
            case Told.PERMISSION:
                await self._permission(thread, event)
            case Told.IDLE:
                thread.calm.set()
            case _:
                pass
        turn = thread.running_turn(event)
        for translated in thread.translator.translate(event):
            if turn is None:
                thread.notices.keep(translated)
            else:
                await thread.notices.show_in(turn)
                await turn.take(translated)

    async def _stop_by_itself(self, thread: Thread) -> None:
        """Stop what the agent begins without a person: the end of a detached command wakes it. It is told of that in its next turn."""
        thread.notices.keep(
            Notice(level="warning", text="Copilot began to work by itself after a command had ended, and was stopped.")
        )
        with suppress(JamError):  # the connection says itself why it ended
            await self._ask(Ask.ABORT, {"sessionId": thread.identity}, STOP_S)

    async def _permission(self, thread: Thread, event: Event) -> None:
        """Ask a person what can be asked, where the thread asks; let it look; refuse all else, and let the turn say so."""
        wanted, request = event.data.get("permissionRequest"), identifier(event.data.get("requestId"))
        turn = thread.running_turn(event)
        may_ask = thread.asks and turn is not None
        if may_ask and turn is not None and not only_reads(wanted, thread.cwd, isolated=self._isolated):
            thread.open.add(request)
            await turn.take(question(event.data))
            return
        if not may_ask:
            await thread.say(refused(event.data))
        with suppress(JamError):  # the connection says itself why it ended
            await self._decide(thread, request, ApprovalAnswer.ALLOW if may_ask else ApprovalAnswer.DENY)

    async def _decide(self, thread: Thread, request: str, answer: ApprovalAnswer) -> None:
        await self._ask(Ask.ANSWER, {"sessionId": thread.identity, "requestId": request, "result": reply(answer)}, SEND_S)

    async def asked(self, method: str, params: Mapping[str, Any]) -> object:
        """Refuse every request of Copilot: what it may ask comes as an event. The thread's turn says so."""
        thread = self._threads.get(identifier(params.get("sessionId")))
        if thread is not None:
            await thread.say(was_refused("Copilot", method))
        raise not_offered(method)

    async def ended(self, error: JamError) -> None:
        """End every running turn with the connection's error; all that came before it was passed on."""
        self.end(error, *(thread.turn for thread in self._threads.values()))

    async def _ask(self, request: Ask, params: Mapping[str, object], timeout_s: float = REQUEST_S) -> object:
        return await self.ask(request, params, timeout_s)
