"""Which turn has run out of time: its agent is silent, or the whole of it took too long. What a person takes to answer counts for neither.

Some agents ask a failing model again and again, for ever, and tell nobody. So the bounds of a turn are the core's, the same for every
provider, and no plugin has one of its own.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

import anyio

from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.events import (
    CommandFinished,
    CommandStarted,
    FileChanged,
    Notice,
    ProviderEvent,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    Working,
)
from jamcore.domain.limits import DEFAULTS, PROVIDER_REQUEST_S, TURN_SILENCE_TOLD_S, Limits
from jamcore.system.clock import Clock
from jamcore.system.tasks import owned_tasks

OPEN_CALLS = 1_024
"""Commands and tools of one turn that are known to run; one more does not keep a silent turn alive."""


@dataclass(eq=False)
class TurnIdleError(FaultError):
    """A turn was ended because nothing was heard of its agent, and nothing of it was open that takes time."""

    code: ClassVar[str] = "turn.idle_timeout"
    hint: ClassVar[str] = (
        "Check the model endpoint and its credential, then say it again: the room can be used. `turn_idle_timeout_s` is the bound."
    )

    limit_s: float
    detail: str


@dataclass(eq=False)
class TurnTooLongError(FaultError):
    """A turn was ended because the whole of it took longer than it may."""

    code: ClassVar[str] = "turn.timeout"
    hint: ClassVar[str] = "Say what is left in smaller steps: the room can be used. `turn_timeout_s` is the bound."

    limit_s: float
    detail: str


@dataclass(eq=False)
class TurnStuckError(FaultError):
    """A turn ran out of time and its agent did not end it when it was told to, so its program is stopped; the turn is in doubt."""

    code: ClassVar[str] = "turn.not_interrupted"
    hint: ClassVar[str] = "Say something: the room comes back from its state, and the turn is said to be kept or cut then."

    detail: str


class TurnWatch:
    """What a turn has been doing, and for how long; times are a monotonic clock's. Owned by whoever runs the turn."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._idle_s = limits.turn_idle_s or math.inf
        self._whole_s = limits.turn_s or math.inf
        self._limits = limits
        self._began = now
        self._heard = now
        self._open: set[str] = set()
        self._asked: float | None = None
        self._answering = 0.0
        self.changed = anyio.Event()
        """Set when what counts has changed; whoever waits looks at :attr:`changed` anew then."""
        self.over = anyio.Event()
        """Set at the provider's end mark."""
        self.overdue: TurnIdleError | TurnTooLongError | None = None
        """Why the turn is being ended, once it is."""
        self.stuck = False
        """Whether it did not end in time for all that."""

    def heard(self, event: ProviderEvent, now: float) -> None:
        """Take note of one event. A notice is no sign of life: retries are told by notices, if at all."""
        if isinstance(event, Notice):
            return
        self._heard = now
        match event:
            case TurnEnded():
                self.over.set()
            case CommandStarted() | Working(over=False):
                item = event.item
                if item and len(self._open) < OPEN_CALLS:
                    self._open.add(item)
            case CommandFinished() | ToolCall() | FileChanged() | Working(over=True):
                if event.item in self._open:
                    self._open.discard(event.item)
                    self._change()  # silence begins to count

    def waits(self, questions: int, now: float) -> None:
        """Take note of how many questions wait for a person's answer."""
        if questions and self._asked is None:
            self._asked = now
        elif not questions and self._asked is not None:
            self._answering += now - self._asked
            self._asked = None
            self._heard = now
            self._change()

    def silent(self, now: float) -> float | None:
        """Return for how long nothing was heard; ``None`` while something of it runs or waits for a person."""
        return None if self._open or self._asked is not None else now - self._heard

    def left(self, now: float) -> float:
        """Return the seconds until a bound is reached as things are; 0 or less: it is."""
        if self._asked is not None:
            return math.inf
        silent = self.silent(now)
        whole = self._began + self._answering + self._whole_s - now
        return whole if silent is None else min(self._idle_s - silent, whole)

    def find_overdue(self, now: float, asked: str) -> TurnIdleError | TurnTooLongError | None:
        """Return why the turn has to end, if it has to; ``asked`` says which model it asked, and what came of it."""
        if self.left(now) > 0:
            return None
        if self._began + self._answering + self._whole_s <= now:
            limit = self._limits.turn_s
            said = f"It took more than {limit:g} s (turn_timeout_s), and was interrupted. Say what is left in smaller steps."
            return TurnTooLongError(limit_s=limit, detail=said)
        limit = self._limits.turn_idle_s
        said = f"Nothing was heard of the agent for {limit:g} s (turn_idle_timeout_s), so it was interrupted."
        why = f" {asked}." if asked else ""
        return TurnIdleError(limit_s=limit, detail=f"{said}{why} Check the model endpoint and its credential, then say it again.")

    def judged(self, end: TurnEnded) -> TurnEnded:
        """Return the end mark as the room hears it: a turn that was ended for its time has failed, unless it was done already."""
        if self.overdue is None or end.outcome is TurnOutcome.COMPLETED:
            return end
        own = f" The agent said: {end.detail}" if end.detail else ""
        return TurnEnded(outcome=TurnOutcome.FAILED, code=self.overdue.code, detail=f"{self.overdue.detail}{own}")

    def _change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


def _nothing_known() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The bounds of a host's turns, and what measures them. ``asked`` says which model its agents ask, and what came of it last."""

    clock: Clock
    limits: Limits = DEFAULTS
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    asked: Callable[[], str] = _nothing_known

    @asynccontextmanager
    async def watching(
        self, interrupt: Callable[[], Awaitable[None]], tell: Callable[[Notice], Awaitable[None]]
    ) -> AsyncIterator[TurnWatch]:
        """Yield the watch of one turn; when its time is out it is interrupted, and the block goes on to the provider's end mark.

        Before that, after a part of the silence, the room is told of it once.

        Raises:
            TurnStuckError: The end mark did not come then; the block was left.
        """
        watch = TurnWatch(self.limits, self.clock.monotonic())
        async with owned_tasks() as tasks:
            tasks.start_soon(self._end_in_time, watch, interrupt, tell, tasks.cancel_scope)
            try:
                yield watch
            finally:
                tasks.cancel_scope.cancel()
        if watch.stuck and watch.overdue is not None:
            said = f"{watch.overdue.detail} It did not end within {PROVIDER_REQUEST_S:g} s either, so its program is stopped."
            raise TurnStuckError(detail=f"{watch.overdue.code}: {said}")

    async def _end_in_time(
        self,
        watch: TurnWatch,
        interrupt: Callable[[], Awaitable[None]],
        tell: Callable[[Notice], Awaitable[None]],
        block: anyio.CancelScope,
    ) -> None:
        told = False
        while (overdue := watch.find_overdue(now := self.clock.monotonic(), self.asked())) is None:
            silent, left = watch.silent(now), watch.left(now)
            if silent is not None and not told:
                if told := silent >= TURN_SILENCE_TOLD_S:
                    await tell(self._silence())
                    continue
                left = min(left, TURN_SILENCE_TOLD_S - silent)
            await self._first(watch.changed.wait, left)
        watch.overdue = overdue

        async def end() -> None:
            with suppress(JamError):  # the turn's own stream tells what became of it
                await interrupt()
            await watch.over.wait()

        if not await self._first(end, PROVIDER_REQUEST_S):
            watch.stuck = True
            block.cancel()

    def _silence(self) -> Notice:
        asked, limit = self.asked(), self.limits.turn_idle_s
        said = (
            f"Nothing was heard of the agent for {TURN_SILENCE_TOLD_S:g} s: it may be asking a model that fails, again and again."
        )
        then = f" After {limit:g} s the turn is interrupted (turn_idle_timeout_s)." if limit else ""
        return Notice(level="warning", text=f"{said}{f' {asked}.' if asked else ''}{then}")

    async def _first(self, wait: Callable[[], Awaitable[None]], limit_s: float) -> bool:
        """Return whether ``wait`` came back before the time was out."""
        came = False
        async with owned_tasks() as tasks:

            async def give_up() -> None:
                await (anyio.sleep_forever() if math.isinf(limit_s) else self.sleep(max(0.0, limit_s)))
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up)
            await wait()
            came = True
            tasks.cancel_scope.cancel()
        return came
