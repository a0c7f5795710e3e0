"""Operations on workspaces: their rules beyond the table of states (WS-2, WS-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from jamcore.domain.errors import ConflictError, IllegalTransitionError
from jamcore.domain.operations import Operation, OperationKind, OperationState
from jamcore.store import Store

if TYPE_CHECKING:
    from tests.unit.store.conftest import Make, Seed

R = OperationState.RUNNING


@pytest.mark.guarantee("WS-2")
@pytest.mark.parametrize("field", ["workspace_id", "host_id", "session_id", "kind", "started_at"])
async def test_what_an_operation_is_about_never_changes(store: Store, seeded: Seed, make: Make, field: str) -> None:
    """Another workspace, host, session, kind or start under a known id is refused, also with a legal step."""
    operation = await store.transact(lambda repos: repos.operations.upsert(make.operation(seeded.workspace)))
    make.clock.turn(1)
    other = {"kind": OperationKind.RECONCILE, "started_at": make.clock.now()}.get(field, make.ids.uuid())
    changed = operation.model_copy(update={field: other, "state": OperationState.SUCCEEDED})
    with pytest.raises(ConflictError) as refused:
        await store.transact(lambda repos: repos.operations.upsert(changed))
    assert field in refused.value.problem
    assert await store.read(lambda repos: repos.operations.get(operation.id)) == operation


@pytest.mark.guarantee("WS-2")
async def test_one_operation_runs_on_a_workspace(store: Store, seeded: Seed, make: Make) -> None:
    """A second one cannot begin, nor go from Pending to Running, until the first has ended; and the refusal says why."""
    first = await store.transact(lambda repos: repos.operations.upsert(make.operation(seeded.workspace)))
    with pytest.raises(ConflictError):
        await store.transact(lambda repos: repos.operations.upsert(make.operation(seeded.workspace)))
    waiting = make.operation(seeded.workspace, state=OperationState.PENDING)
    await store.transact(lambda repos: repos.operations.upsert(waiting))
    running = waiting.model_copy(update={"state": R})
    with pytest.raises(ConflictError):
        await store.transact(lambda repos: repos.operations.upsert(running))
    assert await store.read(lambda repos: repos.operations.events(waiting.id)) == ((1, "pending", ""),)
    await store.transact(lambda repos: repos.operations.upsert(first.model_copy(update={"state": OperationState.CANCELLED})))
    assert (await store.transact(lambda repos: repos.operations.upsert(running))).state is R


@pytest.mark.guarantee("WS-2")
async def test_a_running_operation_may_get_another_result(store: Store, seeded: Seed, make: Make) -> None:
    """Progress is stored with an event; the same again adds none."""
    operation = await store.transact(lambda repos: repos.operations.upsert(make.operation(seeded.workspace)))
    further = operation.model_copy(update={"result": "copied"})
    for _ in range(2):
        assert await store.transact(lambda repos: repos.operations.upsert(further)) == further
    assert await store.read(lambda repos: repos.operations.events(operation.id)) == ((1, R, ""), (2, R, "copied"))


@pytest.mark.guarantee("WS-2")
@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED])
async def test_no_operation_is_born_ended(store: Store, seeded: Seed, make: Make, state: OperationState) -> None:
    """What ends has begun: an unknown id in an end state is refused and leaves no row."""
    operation = make.operation(seeded.workspace, state=state)
    with pytest.raises(IllegalTransitionError):
        await store.transact(lambda repos: repos.operations.upsert(operation))
    assert await store.read(lambda repos: repos.operations.events(operation.id)) == ()


@pytest.mark.guarantee("WS-2")
async def test_an_ended_operation_keeps_its_result(store: Store, seeded: Seed, make: Make) -> None:
    """Terminal is terminal: even the result stays."""
    operation = await store.transact(lambda repos: repos.operations.upsert(make.operation(seeded.workspace)))
    ended = operation.model_copy(update={"state": OperationState.FAILED, "result": "io-error"})
    await store.transact(lambda repos: repos.operations.upsert(ended))
    with pytest.raises(IllegalTransitionError):
        await store.transact(lambda repos: repos.operations.upsert(ended.model_copy(update={"result": "other"})))


@pytest.mark.guarantee("WS-3")
@pytest.mark.parametrize("result", ["/export/here", "force=1", "Copied", "a b", "x" * 65, "line\n", "é"])
async def test_a_result_cannot_carry_intent(make: Make, seeded: Seed, result: str) -> None:
    """A result is a short lower-case class: no path, option, sentence or hidden line fits into it."""
    fields = make.operation(seeded.workspace).model_dump() | {"result": result}
    with pytest.raises(ValidationError):
        Operation.model_validate(fields)
