"""Calling code of a plugin's author so that whatever it does, the daemon goes on: in a thread of its own, for a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import anyio

T = TypeVar("T")

PROBLEM_CHARACTERS = 300
"""How much of an author's own words is kept in a report."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The call raised. A value, so that a plugin's ``CancelledError`` or ``SystemExit`` never acts as ours."""

    error: BaseException

    def __str__(self) -> str:
        return describe(self.error)


async def call_bounded(call: Callable[[], T], *, limit_s: float) -> T | Raised:
    """Run ``call`` in a new thread and return its answer or what it raised.

    The thread is a daemon thread: one that hangs is left behind and ends with the process, and nobody waits for it.

    Raises:
        TimeoutError: It was not done within ``limit_s`` seconds.
    """
    future: Future[T | Raised] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        answer: T | Raised
        try:
            answer = call()
        except BaseException as error:  # noqa: BLE001 - isolation: an author's mistake ends here
            answer = Raised(error)
        future.set_result(answer)

    threading.Thread(target=run, name="jam plugin call", daemon=True).start()
    with anyio.fail_after(limit_s):
        return await asyncio.wrap_future(future)


def describe(error: BaseException) -> str:
    """Say what was raised in one bounded line, also when the error cannot say it itself."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - isolation: __str__ of an author's error may raise
        words = ""
    return f"raised {type(error).__name__}{': ' if words else ''}{words}"[:PROBLEM_CHARACTERS]
