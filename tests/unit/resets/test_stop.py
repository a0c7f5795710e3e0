"""A daemon that is being stopped waits for no fresh start, and begins none; the next life finishes what was confirmed (CONT-9, START-4)."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from jamcore.daemon import reset_files
from jamcore.runtime.gate import DaemonStoppingError
from jamcore.workspace.carry import carry
from tests.unit.resets.conftest import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

HANG_S = 20.0
"""Nothing here takes a second; what hangs fails by this."""


@pytest.mark.guarantee("CONT-9", "START-4", "WS-12")
async def test_a_stop_cuts_it_and_the_next_life_finishes_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of copying files, which may take minutes. The daemon says meanwhile what it is doing."""
    await stage.make()
    stage.corrupt()
    copying = threading.Event()

    def endless(*_: object, **__: object) -> None:
        copying.set()
        while True:
            anyio.from_thread.check_cancelled()

    monkeypatch.setattr(reset_files, "carry", endless)
    async with stage.living() as life:
        room = stage.rooms[0].room.id
        seen = (await life.resets.inspect(str(room))).digest
        refused: list[str] = []

        async def ask() -> None:
            with pytest.raises(DaemonStoppingError) as caught:
                await life.start_fresh(room, seen)
            refused.append(caught.value.work)

        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await anyio.to_thread.run_sync(copying.wait)
                assert life.gate.under_way() == ("begin a conversation afresh",)
                life.gate.close()
            await ask()
        assert refused == ["begin a conversation afresh"] * 2
    monkeypatch.setattr(reset_files, "carry", carry)
    async with stage.living() as life:
        assert await life.start_up() == []
        assert (await life.start_fresh(room, seen)).live
