"""The leak guards as fixtures.

Make ``no_leaks`` automatic for a whole directory with a few lines in its conftest::

    @pytest.fixture(autouse=True)
    def nothing_is_left(no_leaks: None) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jamcore.testing.guards import Watch, adopting_orphans


@pytest.fixture
def no_leaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the test when it leaves a process, a mount below its temporary directory, or a changed environment or directory."""
    with adopting_orphans():
        watch = Watch(mount_roots=[tmp_path_factory.getbasetemp()])
        yield
        _fail_on(watch)


@pytest.fixture
def leak_guard() -> Iterator[Callable[..., Watch]]:
    """Begin a stricter watch in the middle of a test: ``leak_guard(directories=[run_dir], descriptors=True)``.

    What is new at the end of the test fails it. The returned watch can be asked earlier too.
    """
    watches: list[Watch] = []

    def begin(*, directories: tuple[Path, ...] | list[Path] = (), descriptors: bool = False) -> Watch:
        watches.append(Watch(directories=directories, descriptors=descriptors))
        return watches[-1]

    with ExitStack() as stack:
        stack.enter_context(adopting_orphans())
        yield begin
        for watch in watches:
            _fail_on(watch)


def _fail_on(watch: Watch) -> None:
    leaks = watch.leaks()
    watch.reap()
    if leaks:
        pytest.fail("the test left behind:\n  " + "\n  ".join(leaks), pytrace=False)
