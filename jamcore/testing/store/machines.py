"""Every machine of the domain, every pair of its states, through the store: what the table has is done, all else changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Table, select

from jamcore.domain.approvals import APPROVAL, ApprovalState, DecidedBy
from jamcore.domain.errors import IllegalTransitionError, InvalidInputError
from jamcore.domain.host_cleanups import CLEANUP, CleanupStage
from jamcore.domain.kept_exports import EXPORT, ExportState
from jamcore.domain.retention import PAYLOAD_DELETION, DeletionStage
from jamcore.domain.sessions import HOST, SESSION, TURN, WORKSPACE, HostState, SessionState, TurnState, WorkspaceState
from jamcore.domain.transitions import TransitionTable
from jamcore.store import Repos, Store
from jamcore.store.tables.approvals import APPROVALS
from jamcore.store.tables.conversation import TURNS
from jamcore.store.tables.exports import EXPORTS, HOST_CLEANUPS
from jamcore.store.tables.host_native import HOST_NATIVE_WORKSPACES
from jamcore.store.tables.hosts import HOSTS, SESSIONS, WORKSPACES
from jamcore.store.tables.retention import PAYLOAD_DELETIONS
from jamcore.testing.store.base import StoreTests, raw
from jamcore.testing.store.records import Records, Seed

GONE = (DeletionStage.SUCCEEDED, DeletionStage.PAYLOAD_REMOVED)
Begin = Callable[[Repos, Records, Seed], UUID]
Move = Callable[[Repos, UUID, Any], object]


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine in the store: its rules, its table, how a row comes to be there and how it is moved.

    ``quiet``: a step that is not in the table is answered without an error, and changes nothing. ``again``: what a repetition after a
    crash may ask for is answered too: the state that it is in, and these steps back.
    """

    rules: TransitionTable[Any]
    states: type[StrEnum]
    table: Table
    begin: Begin
    move: Move
    column: str = "state"
    quiet: bool = False
    again: frozenset[tuple[StrEnum, StrEnum]] | None = None


def _begin_turn(repos: Repos, make: Records, seed: Seed) -> UUID:
    return repos.turns.accept(make.turn(seed.room, seed.session)).id


def _begin_approval(repos: Repos, make: Records, seed: Seed) -> UUID:
    turn = repos.turns.accept(make.turn(seed.room, seed.session))
    return repos.approvals.insert(make.approval(turn)).id


def _begin_removal(repos: Repos, make: Records, seed: Seed) -> UUID:
    checkpoint = repos.checkpoints.insert(make.checkpoint(seed.host))
    return repos.payload_deletions.prepare(make.payload_deletion(checkpoint)).id


def _advance(repos: Repos, identifier: UUID, new: DeletionStage) -> None:
    removal = select(PAYLOAD_DELETIONS.c.removal_id).where(PAYLOAD_DELETIONS.c.id == identifier)
    repos.payload_deletions.advance(raw(repos).execute(removal).scalar_one(), new)


def _begin_workspace(repos: Repos, make: Records, seed: Seed) -> UUID:
    return repos.workspaces.insert(make.workspace(repos.sessions.insert(make.session(seed.host)))).id


def _begin_host_native(repos: Repos, make: Records, seed: Seed) -> UUID:
    session = repos.sessions.insert(make.session(seed.host))
    return repos.host_native.insert(make.host_native(session, seed.host.daemon_id)).id


MACHINES = (
    Machine(
        HOST,
        HostState,
        HOSTS,
        lambda repos, make, seed: repos.hosts.insert(make.host(seed.agent)).id,
        lambda repos, identifier, new: repos.hosts.move(identifier, new),
    ),
    Machine(
        SESSION,
        SessionState,
        SESSIONS,
        lambda repos, make, seed: repos.sessions.insert(make.session(seed.host)).id,
        lambda repos, identifier, new: repos.sessions.move(identifier, new),
    ),
    Machine(
        WORKSPACE,
        WorkspaceState,
        WORKSPACES,
        _begin_workspace,
        lambda repos, identifier, new: repos.workspaces.move(identifier, new),
    ),
    Machine(
        WORKSPACE,
        WorkspaceState,
        HOST_NATIVE_WORKSPACES,
        _begin_host_native,
        lambda repos, identifier, new: repos.host_native.move(identifier, new),
    ),
    Machine(
        TURN,
        TurnState,
        TURNS,
        _begin_turn,
        lambda repos, identifier, new: repos.turns.move(identifier, new, checkpoint_id=identifier),
    ),
    Machine(
        APPROVAL,
        ApprovalState,
        APPROVALS,
        _begin_approval,
        lambda repos, identifier, new: repos.approvals.decide(identifier, new, DecidedBy.PERSON),
        quiet=True,
    ),
    Machine(PAYLOAD_DELETION, DeletionStage, PAYLOAD_DELETIONS, _begin_removal, _advance, column="stage", again=frozenset({GONE})),
    Machine(
        EXPORT,
        ExportState,
        EXPORTS,
        lambda repos, make, seed: repos.exports.insert(make.export(seed.workspace)).id,
        lambda repos, identifier, new: repos.exports.move(identifier, new),
        again=frozenset(),
    ),
    Machine(
        CLEANUP,
        CleanupStage,
        HOST_CLEANUPS,
        lambda repos, make, seed: repos.host_cleanups.prepare(make.host_cleanup(repos.hosts.insert(make.host(seed.agent)))).id,
        lambda repos, identifier, new: repos.host_cleanups.advance(identifier, new),
        column="stage",
        again=frozenset(),
    ),
)
"""Operations have a test of their own: their steps are journaled too (WS-2)."""


class MachineTests(StoreTests):
    """Transition tables."""

    @pytest.mark.guarantee("WS-15", "CONT-11")
    @pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: str(machine.table.name))
    async def test_every_pair(self, store: Store, make: Records, seeded: Seed, machine: Machine) -> None:
        """The store does a step if and only if the table has it; what it refuses leaves the row as it was, and names both states.

        A step that the rules do not have, once stored, is believed at every later start.
        """
        for old, new in product(machine.states, repeat=2):
            identifier = await store.transact(lambda repos, old=old: _bring(repos, machine, make, seeded, old))  # type: ignore[misc]
            await _try(store, machine, identifier, old, new)
            expected = new if machine.rules.allows(old, new) else old
            assert await store.read(lambda repos, of=identifier: _state(repos, machine, of)) == expected, (old, new)  # type: ignore[misc]

    @pytest.mark.guarantee("CONT-11")
    async def test_a_captured_turn_names_its_generation(self, store: Store, make: Records, seeded: Seed) -> None:
        """Only captured reads as safe, so it cannot be said without the generation that holds the turn.

        A turn that is called safe and is in no generation is lost without a word.
        """
        turn = make.turn(seeded.room, seeded.session, state=TurnState.COMPLETED)
        await store.transact(lambda repos: repos.turns.accept(turn))
        with pytest.raises(InvalidInputError):
            await store.transact(lambda repos: repos.turns.move(turn.id, TurnState.CAPTURED))
        assert (await store.read(lambda repos: repos.turns.get(turn.id))).state is TurnState.COMPLETED


async def _try(store: Store, machine: Machine, identifier: UUID, old: StrEnum, new: StrEnum) -> None:
    """Try one step."""

    def move(repos: Repos) -> None:
        machine.move(repos, identifier, new)

    repeated = machine.again is not None and (new is old or (old, new) in machine.again)
    if machine.quiet or repeated or machine.rules.allows(old, new):
        await store.transact(move)
        return
    with pytest.raises(IllegalTransitionError) as refused:
        await store.transact(move)
    assert (refused.value.machine, refused.value.old, refused.value.new) == (machine.rules.machine, old, new)


def _bring(repos: Repos, machine: Machine, make: Records, seed: Seed, old: StrEnum) -> UUID:
    """Make a row and put it into a state past the rules."""
    identifier = machine.begin(repos, make, seed)
    row = machine.table.update().where(machine.table.c.id == identifier).values({machine.column: old.value})
    assert raw(repos).execute(row).rowcount == 1
    return identifier


def _state(repos: Repos, machine: Machine, identifier: UUID) -> str:
    query = select(machine.table.c[machine.column]).where(machine.table.c.id == identifier)
    state: str = raw(repos).execute(query).scalar_one()
    return state
