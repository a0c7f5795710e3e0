"""A few threads for one thread's work: all ends with the call, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from jamcore.system.crew import spread


def nothing() -> None:
    """Nobody gives up."""


def test_results_come_in_the_order_of_the_items() -> None:
    """However the pieces end."""
    assert spread(lambda item, _: item * 2, range(500), nothing) == [item * 2 for item in range(500)]
    assert spread(lambda item, _: item, [], nothing) == []


def test_a_system_that_does_not_say_which_processors_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux alone says it; elsewhere all of them are."""
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert spread(lambda item, _: item * 2, range(10), nothing) == [item * 2 for item in range(10)]


def test_the_first_failure_stops_the_others_and_is_raised() -> None:
    """Pieces that are not begun are not begun any more, and no thread is left."""
    begun: list[int] = []

    def work(item: int, alive: Callable[[], None]) -> None:
        alive()
        begun.append(item)
        if item == 3:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        spread(work, range(1_000_000), nothing)
    assert len(begun) < 1_000_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("jam-crew")]


def test_who_gives_up_is_asked_in_the_own_thread_and_stops_the_work() -> None:
    """A piece that never ends by itself ends when the caller gives up."""
    asked: list[threading.Thread] = []

    def alive() -> None:
        asked.append(threading.current_thread())
        raise TimeoutError

    def work(_: int, alive: Callable[[], None]) -> None:
        while True:
            alive()

    with pytest.raises(TimeoutError):
        spread(work, range(2), alive)
    assert set(asked) == {threading.current_thread()}
