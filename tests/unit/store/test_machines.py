"""Every machine of the domain, every pair of its states, through the store: what the table has is done, all else changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from jamcore.domain.errors import IllegalTransitionError, InvalidInputError
from jamcore.domain.operations import OPERATION, Operation, OperationState
from jamcore.domain.sessions import HOST, SESSION, TURN, WORKSPACE, HostState, SessionState, TurnState, WorkspaceState
from jamcore.domain.transitions import TransitionTable
from jamcore.store import Repos, Store

if TYPE_CHECKING:
    from tests.unit.store.conftest import Make, Seed

MACHINES: dict[TransitionTable[Any], type[StrEnum]] = {
    HOST: HostState,
    SESSION: SessionState,
    WORKSPACE: WorkspaceState,
    TURN: TurnState,
}


def put(repos: Repos, *, make: Make, seed: Seed, table: TransitionTable[Any], old: StrEnum) -> Callable[[Repos, Any], object]:
    """Put a record in the state ``old`` and return what moves it."""
    if table is HOST:
        host = repos.hosts.insert(make.host(seed.agent, state=HostState(old)))
        return lambda repos, new: repos.hosts.move(host.id, new)
    session = repos.sessions.insert(make.session(seed.host).model_copy(update={"state": old} if table is SESSION else {}))
    if table is SESSION:
        return lambda repos, new: repos.sessions.move(session.id, new)
    if table is WORKSPACE:
        workspace = repos.workspaces.insert(make.workspace(session, state=WorkspaceState(old)))
        return lambda repos, new: repos.workspaces.move(workspace.id, new)
    turn = repos.turns.accept(make.turn(seed.room, session, state=TurnState(old)))
    checkpoint = make.ids.uuid()
    return lambda repos, new: repos.turns.move(turn.id, new, checkpoint_id=checkpoint)


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("table", MACHINES, ids=lambda table: str(table.machine))
async def test_every_pair(store: Store, seeded: Seed, make: Make, table: TransitionTable[Any]) -> None:
    """The store does a step if and only if the table has it; a refused one names both states."""
    for old, new in product(MACHINES[table], repeat=2):
        await check_step(store, await store.transact(partial(put, make=make, seed=seeded, table=table, old=old)), table, old, new)


async def check_step(
    store: Store, move: Callable[[Repos, StrEnum], object], table: TransitionTable[Any], old: StrEnum, new: StrEnum
) -> None:
    """Try one step."""
    if table.allows(old, new):
        moved: Any = await store.transact(lambda repos: move(repos, new))
        assert moved.state is new
        return
    with pytest.raises(IllegalTransitionError) as refused:
        await store.transact(lambda repos: move(repos, new))
    assert (refused.value.machine, refused.value.old, refused.value.new) == (table.machine, old, new)


def test_an_operation_has_six_arrows() -> None:
    """Pending and Running have three each; what has ended has none."""
    assert len(OPERATION.edges()) == 6
    assert {old for old, _ in OPERATION.edges()} == {OperationState.PENDING, OperationState.RUNNING}
    assert all(OPERATION.is_terminal(state) for state in OperationState if state not in ("pending", "running"))


@pytest.mark.guarantee("WS-2")
@pytest.mark.parametrize("old", OperationState)
async def test_every_pair_of_an_operation(store: Store, seeded: Seed, make: Make, old: OperationState) -> None:
    """A step of the table is stored with an event of the next number in the same transaction; any other leaves row and events alone."""
    for new in (state for state in OperationState if state is not old):
        operation = await store.transact(partial(bring, make=make, seed=seeded, old=old))
        await check_operation(store, operation, new)


def bring(repos: Repos, *, make: Make, seed: Seed, old: OperationState) -> Operation:
    """Bring a new operation on a new workspace into a state by legal steps."""
    workspace = repos.workspaces.insert(make.workspace(repos.sessions.insert(make.session(seed.host))))
    operation = make.operation(repos, workspace, state=OperationState.PENDING)
    way = {OperationState.PENDING: [], OperationState.SUCCEEDED: [OperationState.RUNNING, old]}.get(old, [old])
    for state in way:
        go(repos, operation, state)
    return repos.operations.get(operation.id)


def go(repos: Repos, operation: Operation, new: OperationState) -> None:
    """Try one step: a Pending one begins to run when the step is intended that removes something; anything else is an end."""
    if new is OperationState.RUNNING:
        repos.operations.note(operation.id, "remove", "intended", "{}", commits=True)
    else:
        repos.operations.end(operation.id, new, "done")


async def check_operation(store: Store, operation: Operation, new: OperationState) -> None:
    """Try one step, and look at the row and its events."""
    story = await store.read(lambda repos: repos.operations.story(operation.id))
    if OPERATION.allows(operation.state, new):
        await store.transact(lambda repos: go(repos, operation, new))
        assert (await store.read(lambda repos: repos.operations.get(operation.id))).state is new
        after = await store.read(lambda repos: repos.operations.story(operation.id))
        said = after[len(story)]
        assert (said.seq, said.state, said.step) == (len(story) + 1, new, "")
        assert [event.seq for event in after] == list(range(1, len(after) + 1))
        return
    with pytest.raises(IllegalTransitionError):
        await store.transact(lambda repos: go(repos, operation, new))
    assert await store.read(lambda repos: repos.operations.get(operation.id)) == operation
    assert await store.read(lambda repos: repos.operations.story(operation.id)) == story


@pytest.mark.guarantee("CONT-11")
async def test_a_captured_turn_names_its_generation(store: Store, seeded: Seed, make: Make) -> None:
    """Only captured reads as safe, so it cannot be said without the generation that holds the turn."""
    turn = make.turn(seeded.room, seeded.session, state=TurnState.COMPLETED)
    await store.transact(lambda repos: repos.turns.accept(turn))
    with pytest.raises(InvalidInputError):
        await store.transact(lambda repos: repos.turns.move(turn.id, TurnState.CAPTURED))
    assert (await store.read(lambda repos: repos.turns.get(turn.id))).state is TurnState.COMPLETED
