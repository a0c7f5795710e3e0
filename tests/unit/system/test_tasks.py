"""What leaves a task group that owns its errors."""

from __future__ import annotations

from typing import NoReturn

import anyio
import pytest

from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.system.tasks import owned_tasks

pytestmark = pytest.mark.anyio

FIRST, SECOND = NotFoundError(kind="room", ref="first"), ConflictError(kind="room", ref="second", problem="taken")


async def fail_with(error: Exception) -> NoReturn:
    """Fail at once."""
    raise error


async def fail_at_the_end_with(error: Exception) -> NoReturn:
    """Fail when something else has failed."""
    try:
        await anyio.sleep_forever()
    finally:
        raise error


async def run(first: Exception, second: Exception) -> None:
    """Let a task fail, and the block beside it because of that."""
    async with owned_tasks() as tasks:
        tasks.start_soon(fail_with, first)
        await fail_at_the_end_with(second)


@pytest.mark.guarantee("CTRL-3")
async def test_of_several_typed_errors_the_first_leaves() -> None:
    """A boundary that answers typed errors meets one, which names the other; nothing is wrapped, also below another group."""
    with pytest.raises(NotFoundError) as raised:
        async with owned_tasks() as outer:
            outer.start_soon(run, FIRST, SECOND)
    assert raised.value is FIRST
    assert [note for note in raised.value.__notes__ if SECOND.code in note]


async def test_a_bug_does_not_hide_behind_a_typed_error() -> None:
    """Both are in the group that leaves."""
    with pytest.raises(BaseExceptionGroup) as raised:
        await run(FIRST, KeyError("a bug"))
    assert [type(error) for error in raised.value.exceptions] == [NotFoundError, KeyError]
