"""What a real agent leaves in its private clone is told before its sandbox may go (OWN-9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jamcore.control.client import JamClient
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.requests import OverrideView
from jamcore.domain.sessions import TurnState
from jamcore.testing.rooms import ask, cloned, running
from jamcore.testing.servers.responses import ResponsesServer, Script, say

pytestmark = [pytest.mark.anyio, pytest.mark.needs("codex", "bubblewrap", "git")]

IDENTITY = "git -c user.name=a -c user.email=a@example.org"
WRITE = "printf mine > made.txt"
COMMIT = f"git checkout -q -b feature && {IDENTITY} add -A && {IDENTITY} commit -q -m mine && git checkout -q jam"


@pytest.mark.guarantee("OWN-9")
@pytest.mark.parametrize("engine", ["bubblewrap", "local"])
async def test_work_in_a_real_clone_is_told(
    client: JamClient, repository: Callable[[Path], Path], tmp_path: Path, engine: str
) -> None:
    """Nothing, a file, a commit on a branch that is not checked out; running and parked; and here it stays, so that it blocks nothing."""
    repo = repository(tmp_path / "repo")
    script = Script(rules=(*running(WRITE, said="Write"), *running(COMMIT, said="Commit"), say("Yes.")))
    async with ResponsesServer(script) as model:
        request = cloned("codex", model.base_url, str(repo), engine=engine, approvals=ApprovalPolicy.NEVER)
        room = await client.create_room(request)
        ref = str(room.room.id)

        async def told() -> OverrideView:
            return await client.inspect_override(ref)

        before = await told()
        assert before.stays is not None
        assert (before.stays.blockers(), before.evidence.clone_goes, before.evidence.work) == ((), False, None)
        assert (await ask(client, room, "Write")).state is TurnState.CAPTURED
        written = await told()
        assert written.stays is not None
        assert "made.txt" in written.stays.paths
        assert written.digest == before.digest, "it is no part of the evidence where it stays"
        assert (await ask(client, room, "Commit")).state is TurnState.CAPTURED
        await client.stop(ref)
        committed = await told()
        assert committed.stays is not None
        assert (committed.stays.commits, committed.stays.uncommitted, committed.stays.unknown) == (1, 0, ())
        await client.resume(ref)
