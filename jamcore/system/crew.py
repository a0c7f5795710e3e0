"""Does many independent pieces of one thread's work in a few threads.

Reading, hashing and decompressing run without the interpreter's lock, so two threads do them in half the time. The threads end before the
call returns, whatever happens; the caller's thread does nothing but wait, and ask whether its caller gave up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 4
"""Threads at most: the work is someone's turn or start, and not the only one on the machine."""
ASK_EACH_S = 0.05
"""How often the caller is asked whether it gave up."""


class _StoppedError(Exception):
    """Another piece failed, or the caller gave up."""


def spread(work: Callable[[T, Callable[[], None]], R], items: Sequence[T], alive: Callable[[], None]) -> list[R]:
    """Return ``work(item, alive)`` of each item, in their order; the first that fails stops the others.

    Args:
        work: Safe to be called from several threads. It calls the ``alive`` that it is given often.
        items: They are begun in their order, so long ones should come first.
        alive: Raises when the caller gave up; called in the caller's own thread alone.
    """
    workers = min(MOST, processors(), len(items))
    if workers < 2:
        return [work(item, alive) for item in items]
    results: dict[int, R] = {}
    stopped = Event()
    left = iter(enumerate(items))  # ``next`` of it is one step of the interpreter, so no two threads get the same

    def still() -> None:
        if stopped.is_set():
            raise _StoppedError

    def take() -> None:
        for index, item in left:
            still()
            results[index] = work(item, still)

    with ThreadPoolExecutor(workers, thread_name_prefix="jam-crew") as pool:
        try:
            _wait([pool.submit(take) for _ in range(workers)], alive)
        finally:
            stopped.set()
    return [results[index] for index in range(len(items))]


def processors() -> int:
    """Return how many processors this process may use; where the system does not say, how many there are."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _wait(running: Sequence[Future[None]], alive: Callable[[], None]) -> None:
    """Wait until all have ended, or one has failed or the caller gave up: then raise that."""
    pending = set(running)
    while pending:
        done, pending = wait(pending, timeout=ASK_EACH_S, return_when=FIRST_EXCEPTION)
        for one in done:
            one.result()
        alive()
