"""What the daemon's log says of the database's schema: one line when it was changed, and nothing at any other start."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.daemon.logs import logging_to
from jamcore.store import open_store
from jamcore.store.migrate import HEAD
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


async def test_a_schema_that_is_up_to_date_is_not_spoken_of(tmp_path: Path) -> None:
    """The first start makes it, and says so in one line; the next one has nothing to say."""
    lines = []
    for name in ("first.log", "second.log"):
        with logging_to(tmp_path / name, "info"):
            async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=9)):
                pass
        lines.append([json.loads(line) for line in (tmp_path / name).read_text().splitlines()])
    (made,), nothing = lines
    assert (made["event"], made["found"], made["now"]) == ("the schema was brought up to date", "no tables", HEAD)
    assert nothing == []
