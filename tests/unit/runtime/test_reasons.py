"""Why a checkpoint is made: after a turn only when the provider completed it, and every reason takes one way (CONT-6, CONT-13)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

import jamcore
from jamcore.domain.continuity import CheckpointReason
from jamcore.domain.providers import ProviderGoneError, ProviderRefusedError
from jamcore.domain.sessions import TurnState
from tests.unit.runtime.test_seats import HANG_S, HOST, A, Host, nothing

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]
AFTER, FIRST = CheckpointReason.AFTER_TURN.value, CheckpointReason.FIRST_TURN.value
GONE = ProviderGoneError(provider="scripted", detail="it died")
REFUSED = ProviderRefusedError(provider="scripted", request="turn", detail="no")


@pytest.mark.guarantee("CONT-13")
@pytest.mark.parametrize(
    ("end", "captured"),
    [(TurnState.COMPLETED, True), (TurnState.INTERRUPTED, False), (TurnState.FAILED, False), (GONE, False), (REFUSED, False)],
)
async def test_a_capture_after_a_turn_follows_completed_turns_alone(
    monkeypatch: pytest.MonkeyPatch, end: TurnState | Exception, captured: bool
) -> None:
    """One that was interrupted, failed, refused or whose end nobody saw has none; the last one before the stop holds it."""
    host, ran = Host(), anyio.Event()

    async def run(*_: object, **__: object) -> TurnState:
        ran.set()
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(host, "run", run)
    monkeypatch.setattr(host, "doubt", nothing, raising=False)
    with anyio.fail_after(HANG_S):
        async with host.pool() as pool:
            worker = await pool.start(HOST, A)
            worker.submit(cast("Any", SimpleNamespace(session_id=A, text="turn")))
            await ran.wait()
            await anyio.wait_all_tasks_blocked()
            during = [word for word in host.said if word in (AFTER, FIRST)]
    assert during == ([FIRST, AFTER] if captured else [FIRST])


@pytest.mark.guarantee("CONT-13", "CONT-6")
def test_every_reason_takes_one_way_to_the_broker() -> None:
    """One function of the core hands reasons on, and one place knows that a turn was completed."""
    root = Path(jamcore.__file__).parent
    sources = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py") if "testing" not in path.parts}
    assert [name for name, text in sources.items() if "broker.capture(" in text] == ["runtime/continuity.py"]
    users = sorted(name for name, text in sources.items() if "CheckpointReason.AFTER_TURN" in text)
    assert users == ["runtime/safekeeping.py"]
    for reason in CheckpointReason:
        assert [name for name, text in sources.items() if f"CheckpointReason.{reason.name}" in text], f"{reason} is made by nobody"
