"""Operations: their rules beyond the table of states (WS-2, WS-3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from uuid import UUID

import pytest
from pydantic import ValidationError

from jamcore.domain.errors import ConflictError, IllegalTransitionError
from jamcore.domain.operations import OPERATION, About, ExportRetention, Operation, OperationState
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed

IDENTIFIER = UUID(int=42)
OTHERWISE: Mapping[str, object] = MappingProxyType(
    {
        "retention": ExportRetention.KEEP_ALL,
        "force": True,
        "confirmed": "0" * 64,
        "export_id": UUID(int=9),
        "workspace_id": None,
        "session_id": None,
        "host_id": None,
    }
)


class OperationTests(StoreTests):
    """Their rules beyond the table of states."""

    @pytest.mark.guarantee("WS-2", "WS-3")
    @pytest.mark.parametrize("field", OTHERWISE)
    async def test_what_an_operation_is_about_never_changes(self, store: Store, seeded: Seed, make: Records, field: str) -> None:
        """Another workspace, host, session, retention, target or confirmation under a known id is refused: each is a column of its own.

        Who confirmed one removal would have confirmed another.
        """
        about = make.about(seeded.workspace)
        operation = await store.transact(lambda repos: repos.operations.begin(IDENTIFIER, "archive", "{}", about))
        changed = about.model_copy(update={field: OTHERWISE[field]})
        with pytest.raises(ConflictError) as refused:
            await store.transact(lambda repos: repos.operations.begin(IDENTIFIER, "archive", "{}", changed))
        assert field in refused.value.problem
        assert await store.read(lambda repos: repos.operations.get(IDENTIFIER)) == operation

    @pytest.mark.guarantee("WS-2", "WS-11")
    @pytest.mark.parametrize("other", [("export", "{}"), ("archive", '{"x":1}')])
    async def test_a_known_id_is_not_used_for_anything_else(
        self, store: Store, seeded: Seed, make: Records, other: tuple[str, str]
    ) -> None:
        """Neither the kind nor the record changes, whether it runs or has ended; the same again is what it was.

        An id that means two actions has the second one answered with the result of the first.
        """
        about = make.about(seeded.workspace)
        for end in (False, True):
            if end:
                await store.transact(lambda repos: repos.operations.end(IDENTIFIER, OperationState.SUCCEEDED, ""))
            first = await store.transact(lambda repos: repos.operations.begin(IDENTIFIER, "archive", "{}", about))
            assert first.finished is end
            with pytest.raises(ConflictError):
                await store.transact(lambda repos: repos.operations.begin(IDENTIFIER, *other, about))

    @pytest.mark.guarantee("WS-2")
    @pytest.mark.parametrize("first", [OperationState.PENDING, OperationState.RUNNING])
    @pytest.mark.parametrize("second", [OperationState.PENDING, OperationState.RUNNING])
    async def test_one_operation_of_a_workspace_is_under_way(
        self, store: Store, seeded: Seed, make: Records, first: OperationState, second: OperationState
    ) -> None:
        """A second one cannot begin until the first has ended, and the refusal says why. Those about no workspace hinder nobody.

        An export beside a removal copies half a workspace and calls it whole.
        """
        held = await store.transact(partial(make.operation, workspace=seeded.workspace, state=first))
        with pytest.raises(ConflictError, match="has not ended"):
            await store.transact(partial(make.operation, workspace=seeded.workspace, state=second))
        await store.transact(
            lambda repos: repos.operations.begin(make.ids.uuid(), "change-request", "{}", About(host_id=seeded.host.id))
        )
        assert await store.read(lambda repos: repos.operations.unfinished_of_workspace(seeded.workspace.id)) == held.id
        await store.transact(lambda repos: repos.operations.end(held.id, OperationState.FAILED, "io-error"))
        assert await store.read(lambda repos: repos.operations.unfinished_of_workspace(seeded.workspace.id)) is None
        assert (await store.transact(partial(make.operation, workspace=seeded.workspace, state=second))).state is second

    @pytest.mark.guarantee("WS-2")
    async def test_the_story_has_every_change_of_the_state_and_every_boundary(
        self, store: Store, seeded: Seed, make: Records
    ) -> None:
        """Numbered without a gap; what was noted can be read on from any number, and a repeated end adds nothing.

        The next life goes on from the last boundary: one that is missing or told twice is a step that is left out or done again.
        """

        def live(repos: Repos) -> None:
            operation = make.operation(repos, seeded.workspace, state=OperationState.PENDING, identifier=IDENTIFIER)
            repos.operations.note(operation.id, "export", "intended", "{}")
            repos.operations.note(operation.id, "export", "failed", "{}", failure="os.enospc")
            repos.operations.note(operation.id, "remove", "intended", "{}", commits=True)
            for _ in range(2):
                repos.operations.end(operation.id, OperationState.SUCCEEDED, "")

        await store.transact(live)
        story = await store.read(lambda repos: repos.operations.story(IDENTIFIER))
        assert [(event.seq, event.state.value, event.step, event.phase, event.result) for event in story] == [
            (1, "pending", "", "", ""),
            (2, "pending", "export", "intended", ""),
            (3, "pending", "export", "failed", "os.enospc"),
            (4, "running", "", "", ""),
            (5, "running", "remove", "intended", ""),
            (6, "succeeded", "", "", ""),
        ]
        assert await store.read(lambda repos: repos.operations.story(IDENTIFIER, after=4)) == story[4:]
        assert await store.read(lambda repos: repos.operations.failures(IDENTIFIER)) == (("export", "os.enospc"),)

    @pytest.mark.guarantee("WS-2")
    @pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED])
    async def test_no_operation_is_born_ended(self, store: Store, seeded: Seed, make: Records, state: OperationState) -> None:
        """What ends has begun: an unknown id in an end state is refused and leaves no row.

        A success of which nothing was ever begun is a removal that nobody did.
        """
        with pytest.raises(IllegalTransitionError):
            await store.transact(partial(make.operation, workspace=seeded.workspace, state=state, identifier=IDENTIFIER))
        assert not await store.read(lambda repos: repos.operations.knows(IDENTIFIER))

    @pytest.mark.guarantee("WS-2")
    async def test_an_ended_operation_keeps_its_result(self, store: Store, seeded: Seed, make: Records) -> None:
        """Terminal is terminal: even the result stays.

        A person has read it, and a retry is answered with it.
        """
        operation = await store.transact(partial(make.operation, workspace=seeded.workspace))
        await store.transact(lambda repos: repos.operations.end(operation.id, OperationState.FAILED, "io-error"))
        with pytest.raises(IllegalTransitionError):
            await store.transact(lambda repos: repos.operations.end(operation.id, OperationState.FAILED, "other"))

    @pytest.mark.guarantee("WS-3")
    @pytest.mark.parametrize("result", ["/export/here", "force=1", "Copied", "a b", "x" * 65, "line\n", "é"])
    async def test_a_result_cannot_carry_intent(self, store: Store, seeded: Seed, make: Records, result: str) -> None:
        """A result is a short lower-case class: no path, option, sentence or hidden line fits into it, and none is stored.

        A result that is read again as an instruction is a way into the next life of the daemon.
        """
        operation = await store.transact(partial(make.operation, workspace=seeded.workspace))
        with pytest.raises(ValidationError):
            await store.transact(lambda repos: repos.operations.end(operation.id, OperationState.FAILED, result))
        assert await store.read(lambda repos: repos.operations.get(operation.id)) == operation

    def test_an_operation_has_six_arrows(self) -> None:
        """Pending and Running have three each; what has ended has none.

        An arrow that is added by mistake lets an ended operation go on, and this suite is to be the first to know.
        """
        assert len(OPERATION.edges()) == 6
        assert {old for old, _ in OPERATION.edges()} == {OperationState.PENDING, OperationState.RUNNING}
        assert all(OPERATION.is_terminal(state) for state in OperationState if state not in ("pending", "running"))

    @pytest.mark.guarantee("WS-2")
    @pytest.mark.parametrize("old", OperationState)
    async def test_every_pair_of_an_operation(self, store: Store, seeded: Seed, make: Records, old: OperationState) -> None:
        """A step of the table is stored with an event of the next number in the same transaction; any other leaves row and events alone.

        A state that changed without an event is a story with a hole, and a number that is missing one that clients wait for.
        """
        for new in (state for state in OperationState if state is not old):
            operation = await store.transact(partial(_bring, make=make, seed=seeded, old=old))
            await _check(store, operation, new)


def _bring(repos: Repos, *, make: Records, seed: Seed, old: OperationState) -> Operation:
    """Bring a new operation on a new workspace into a state by legal steps."""
    workspace = repos.workspaces.insert(make.workspace(repos.sessions.insert(make.session(seed.host))))
    operation = make.operation(repos, workspace, state=OperationState.PENDING)
    way = {OperationState.PENDING: [], OperationState.SUCCEEDED: [OperationState.RUNNING, old]}.get(old, [old])
    for state in way:
        _go(repos, operation, state)
    return repos.operations.get(operation.id)


def _go(repos: Repos, operation: Operation, new: OperationState) -> None:
    """Try one step: a Pending one begins to run when the step is intended that removes something; anything else is an end."""
    if new is OperationState.RUNNING:
        repos.operations.note(operation.id, "remove", "intended", "{}", commits=True)
    else:
        repos.operations.end(operation.id, new, "done")


async def _check(store: Store, operation: Operation, new: OperationState) -> None:
    """Try one step, and look at the row and its events."""
    story = await store.read(lambda repos: repos.operations.story(operation.id))
    if OPERATION.allows(operation.state, new):
        await store.transact(lambda repos: _go(repos, operation, new))
        assert (await store.read(lambda repos: repos.operations.get(operation.id))).state is new
        after = await store.read(lambda repos: repos.operations.story(operation.id))
        assert len(after) > len(story)
        said = after[len(story)]
        assert (said.seq, said.state, said.step) == (len(story) + 1, new, "")
        assert [event.seq for event in after] == list(range(1, len(after) + 1))
        return
    with pytest.raises(IllegalTransitionError):
        await store.transact(lambda repos: _go(repos, operation, new))
    assert await store.read(lambda repos: repos.operations.get(operation.id)) == operation
    assert await store.read(lambda repos: repos.operations.story(operation.id)) == story
