"""Nobody works in a sandbox that is stopped; of any other answer, or none, it is not known who does (WS-16, OWN-6)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from jamcore.daemon.tree_users import SandboxUsers
from jamcore.domain.errors import JamError
from jamcore.domain.removal import NEVER_FORCED, RemovalReason
from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.sandbox.calls import EngineCalls
from jamcore.system.clock import SystemClock
from jamcore.workspace.inspection.inspect import Inspector

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-16", "OWN-6")]


class Named:
    """An engine with a name."""

    name = "e"


class Calls:
    """An engine that gives one answer."""

    engine = Named()

    def __init__(self, answer: Presence | JamError) -> None:
        self._answer = answer

    async def presence(self, sandbox: str) -> Presence:
        """See :class:`~jamcore.sandbox.calls.EngineCalls`."""
        if isinstance(self._answer, JamError):
            raise self._answer
        return self._answer


def users(answer: Presence | JamError) -> SandboxUsers:
    return SandboxUsers(cast("EngineCalls", Calls(answer)), "jam-x")


@pytest.mark.parametrize("presence", [Presence.STOPPED, Presence.ABSENT])
async def test_nobody_works_in_what_does_not_run(presence: Presence, tmp_path: Path) -> None:
    """An empty answer, which means that there are none."""
    assert await users(presence).users(tmp_path) == ()


@pytest.mark.parametrize("answer", [Presence.RUNNING, EngineUnknownError(engine="e", operation="presence", detail="no answer")])
async def test_what_is_not_known_stands_against_a_removal(answer: Presence | JamError, tmp_path: Path) -> None:
    """For as long as it is so: no word of a person overrides it."""
    tree, scratch = tmp_path / "tree", tmp_path / "scratch"
    tree.mkdir()
    scratch.mkdir()
    with pytest.raises(EngineUnknownError):
        await users(answer).users(tree)
    found = await Inspector(users=users(answer), clock=SystemClock(), scratch=scratch).inspect(tree, guest_path="/w")
    assert [blocker.reason for blocker in found.blockers] == [RemovalReason.USE_UNKNOWN]
    assert RemovalReason.USE_UNKNOWN in NEVER_FORCED
