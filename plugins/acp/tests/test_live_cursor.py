"""Cursor's real program, on a machine that has it and a key: what the profile says of it is proven here, and nowhere else (LIVE-1, LIVE-2).

Nothing isolates it, and no relay stands before its endpoint: it gets the person's key, and works in temporary directories.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import pytest

from jam_acp.profile import Profile
from jam_acp.profiles.cursor import CURSOR, ORIGIN
from jamcore.api import (
    ProviderGoneError,
    ProviderIdentity,
    ProviderRuntime,
    TextDelta,
    ThreadRequest,
    TurnEnded,
    TurnOutcome,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.provider_turns import run_turn

pytestmark = [pytest.mark.live("JAM_LIVE_CURSOR"), pytest.mark.anyio]

OpenProfile = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
MakeGuest = Callable[[str], Awaitable[LocalGuest]]
LIMIT_S = 300.0
PROGRAM = "cursor-agent"


def real() -> Profile:
    """Return the profile with the program of this machine and the person's key."""
    program = shutil.which(PROGRAM)
    assert program is not None, f"{PROGRAM} is not installed"
    environment = dict(CURSOR.environment) | {"CURSOR_API_KEY": os.environ["CURSOR_API_KEY"]}
    return CURSOR.model_copy(
        update={
            "argv": (program, *CURSOR.argv[1:]),
            "version_argv": (program, *CURSOR.version_argv[1:]),
            "environment": tuple(environment.items()),
        }
    )


async def killed(runtime: ProviderRuntime, identity: ProviderIdentity, guest: LocalGuest) -> None:
    """Run a turn and kill the program at its first word."""
    with anyio.fail_after(LIMIT_S):
        async with runtime.turn(identity, "Count slowly from one to a hundred, one number to a line.") as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await guest.processes[-1].signal(signal.SIGKILL)


async def test_a_turn_changes_a_file_and_the_captured_database_alone_brings_the_session_back(
    make_guest: MakeGuest, open_profile: OpenProfile
) -> None:
    """What was said before the kill is known after it, in a home that holds nothing but what Jam captures."""
    assert CURSOR.capture is not None
    [entry] = CURSOR.capture.entries
    old, new = await make_guest("old"), await make_guest("new")
    request = ThreadRequest(cwd=str(old.work))
    async with open_profile(real(), old, ORIGIN, Path("/nowhere")) as runtime:
        identity = provider_identity((await runtime.open_thread(request)).identity)
        text = "Remember the word quetzal-7731, and write it into the file word.txt. Say nothing else."
        events = await run_turn(runtime, identity, text, timeout_s=LIMIT_S)
        assert events[-1] == TurnEnded(outcome=TurnOutcome.COMPLETED)
        assert "quetzal-7731" in (old.work / "word.txt").read_text()
        with pytest.raises(ProviderGoneError):
            await killed(runtime, identity, old)
    for path in old.home.glob(entry.pattern):
        place = new.home / path.relative_to(old.home)
        place.parent.mkdir(parents=True)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(place)) as target:
            source.backup(target)
    (old.work / "word.txt").unlink()
    async with open_profile(real(), new, ORIGIN, Path("/nowhere")) as runtime:
        again = await runtime.resume_thread(identity, request)
        asked = "Which word did I ask you to remember? Answer with the word alone, and open no file."
        events = await run_turn(runtime, identity, asked, timeout_s=LIMIT_S)
    assert again.identity == identity
    assert len(again.turns) == 2
    assert "quetzal-7731" in "".join(event.text for event in events if isinstance(event, TextDelta))
