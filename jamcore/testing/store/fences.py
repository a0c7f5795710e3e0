"""Epochs: a daemon's next life owns what it had, and its former life can write nothing; other daemons' rows are theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from uuid import UUID

import pytest

from jamcore.domain.errors import IllegalTransitionError, NotFoundError
from jamcore.domain.events import SessionNotice
from jamcore.domain.operations import About, OperationState
from jamcore.domain.sessions import HostState, SessionState, TurnState, WorkspaceState
from jamcore.store import FencedError, Repos
from jamcore.testing.store.base import OTHER, Feature, OpenLife, StoreTests, asked_of, everything
from jamcore.testing.store.records import Records, Seed

WRITES: Mapping[str, Callable[[Repos, Records, Seed], object]] = MappingProxyType(
    {
        "agent": lambda repos, make, _seed: repos.agents.insert(make.agent("another")),
        "host": lambda repos, make, seed: repos.hosts.move(seed.host.id, HostState.ACTIVE),
        "new host": lambda repos, make, seed: repos.hosts.insert(make.host(seed.agent)),
        "session": lambda repos, make, seed: repos.sessions.move(seed.session.id, SessionState.LIVE),
        "identity": lambda repos, make, seed: repos.sessions.bind_identity(seed.session.id, "thread"),
        "workspace": lambda repos, make, seed: repos.workspaces.move(seed.workspace.id, WorkspaceState.PROVISIONING),
        "turn": lambda repos, make, seed: repos.turns.accept(make.turn(seed.room, seed.session)),
        "event": lambda repos, make, seed: repos.events.append(seed.room.id, None, [SessionNotice(code="c", detail="")]),
        "lease": lambda repos, make, seed: repos.leases.acquire(seed.host.id, seed.session.id),
        "binding": lambda repos, make, seed: repos.bindings.insert(make.binding(seed.room, seed.session, live=False)),
        "room": lambda repos, make, seed: repos.rooms.insert(make.room(seed.agent, "another")),
        "run": lambda repos, make, seed: repos.runs.insert(make.run(seed.room)),
        "change": lambda repos, make, seed: repos.changes.insert(make.change(seed.room, seed.session)),
        "operation": lambda repos, make, seed: make.operation(repos, seed.workspace),
        "journal": lambda repos, make, _seed: repos.operations.begin(make.ids.uuid(), "kind", "{}", About()),
        "export": lambda repos, make, seed: repos.exports.insert(make.export(seed.workspace)),
        "clean-up": lambda repos, make, seed: repos.host_cleanups.prepare(make.host_cleanup(seed.host)),
        "checkpoint": lambda repos, make, seed: repos.checkpoints.insert(make.checkpoint(seed.host)),
    }
)


class FenceTests(StoreTests):
    """Who may write."""

    async def test_a_new_row_belongs_to_the_one_who_writes_it(self, open_life: OpenLife, make: Records) -> None:
        """The fence of a record is the store's to say, so nobody can make a row that it could not change.

        A row with somebody else's fence can be finished by nobody.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            operation = await store.transact(lambda repos: make.operation(repos, seeded.workspace))
            fence = (store.fence.daemon_id, store.fence.epoch)
            assert (seeded.host.daemon_id, seeded.host.fence_epoch) == fence
            assert (operation.daemon_id, operation.fence_epoch) == fence

    async def test_the_next_life_adopts_hosts_leases_and_operations(self, open_life: OpenLife, make: Records) -> None:
        """After a restart everything that was begun can be finished: the host is moved, the operation ended, the lease given back.

        What is not adopted stays half done, and its host stays held, for ever.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            operation = await store.transact(lambda repos: make.operation(repos, seeded.workspace))
            await store.transact(lambda repos: repos.leases.acquire(seeded.host.id, seeded.session.id))
            first = store.fence.epoch
        async with open_life() as store:
            assert store.fence.epoch == first + 1
            left = await store.read(lambda repos: repos.operations.running())
            assert left == ((operation.id, "provision", "{}"),)
            done = await store.transact(lambda repos: repos.operations.end(operation.id, OperationState.SUCCEEDED, ""))
            assert done.state is OperationState.SUCCEEDED
            assert await store.read(lambda repos: repos.leases.live_of_host(seeded.host.id)) == (seeded.session.id,)
            await store.transact(lambda repos: repos.leases.release(seeded.host.id, seeded.session.id))
            assert await store.read(lambda repos: repos.leases.live_of_host(seeded.host.id)) == ()
            assert (
                await store.transact(lambda repos: repos.hosts.move(seeded.host.id, HostState.ACTIVE))
            ).state is HostState.ACTIVE

    @pytest.mark.parametrize("name", WRITES)
    async def test_a_former_life_writes_nothing(self, open_life: OpenLife, make: Records, name: str) -> None:
        """Whatever a store of an older epoch wants to write is refused and not written; reading stays possible.

        A daemon that was thought dead would undo what the next one did, and both would be believed.
        """
        async with open_life() as old:
            seeded = await old.transact(make.seed)
            async with open_life() as new:
                before = await new.read(everything)
                with pytest.raises(FencedError):
                    await old.transact(lambda repos: WRITES[name](repos, make, seeded))
                assert await new.read(everything) == before
                assert await old.read(lambda repos: repos.rooms.list())
                await new.transact(lambda repos: WRITES[name](repos, make, seeded))

    @pytest.mark.guarantee("SHARE-1")
    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_two_daemons_with_one_database_keep_to_their_own(self, open_life: OpenLife, make: Records) -> None:
        """A daemon cannot move another's host, hold a lease on it, or begin, join or finish an operation on it, while its own go on.

        The files are in the other one's app directory: what is said of them here was never seen.
        """
        async with open_life() as one, open_life(daemon_id=OTHER) as two:
            theirs = await one.transact(lambda repos: make.seed(repos, "one"))
            ours = await two.transact(lambda repos: make.seed(repos, "two"))
            operation = await one.transact(lambda repos: make.operation(repos, theirs.workspace))
            with pytest.raises(FencedError):
                await two.transact(lambda repos: repos.hosts.move(theirs.host.id, HostState.ACTIVE))
            with pytest.raises(FencedError):
                await two.transact(lambda repos: repos.leases.acquire(theirs.host.id, theirs.session.id))
            with pytest.raises(FencedError):
                await two.transact(lambda repos: repos.operations.end(operation.id, OperationState.FAILED, "interrupted"))
            with pytest.raises(FencedError):
                await two.transact(lambda repos: repos.operations.note(operation.id, "layout", "intended", "{}"))
            for about in (
                About(host_id=theirs.host.id),
                About(workspace_id=theirs.workspace.id),
                About(session_id=theirs.session.id),
                About(room_id=theirs.room.id),
            ):
                with pytest.raises(FencedError):
                    await two.transact(partial(_begin, make.ids.uuid(), about))
            with pytest.raises(FencedError):
                await two.transact(lambda repos: make.operation(repos, theirs.workspace, identifier=operation.id))
            assert await two.read(lambda repos: repos.operations.running()) == ()
            await two.transact(lambda repos: repos.hosts.move(ours.host.id, HostState.ACTIVE))
            await one.transact(lambda repos: repos.hosts.move(theirs.host.id, HostState.ACTIVE))
            assert (await two.read(lambda repos: repos.operations.get(operation.id))).state is OperationState.RUNNING

    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_a_lease_of_another_daemon_cannot_be_given_back(self, open_life: OpenLife, make: Records) -> None:
        """Releasing somebody else's lease changes nothing.

        Its host would be stopped under the sessions that hold it.
        """
        async with open_life() as one, open_life(daemon_id=OTHER) as two:
            seeded = await one.transact(make.seed)
            await one.transact(lambda repos: repos.leases.acquire(seeded.host.id, seeded.session.id))
            await two.transact(lambda repos: repos.leases.release(seeded.host.id, seeded.session.id))
            assert await one.read(lambda repos: repos.leases.live_of_host(seeded.host.id)) == (seeded.session.id,)

    async def test_a_lost_race_is_told_from_a_lost_host(self, open_life: OpenLife, make: Records) -> None:
        """Of two equal moves one is made; the other says from which state it would have gone, and an unknown id is not found.

        Who lost a race reads the state and goes on; who lost the host has to stop.
        """
        async with open_life() as store:
            seeded = await store.transact(make.seed)
            turn = await store.transact(lambda repos: repos.turns.accept(make.turn(seeded.room, seeded.session)))
            await store.transact(lambda repos: repos.turns.move(turn.id, TurnState.CUT))
            with pytest.raises(IllegalTransitionError) as lost:
                await store.transact(lambda repos: repos.turns.move(turn.id, TurnState.RUNNING))
            assert (lost.value.old, lost.value.new) == (TurnState.CUT, TurnState.RUNNING)
            with pytest.raises(NotFoundError):
                await store.transact(lambda repos: repos.hosts.move(make.ids.uuid(), HostState.ACTIVE))

    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_a_run_of_another_daemon_is_not_taken_up(self, open_life: OpenLife, make: Records) -> None:
        """Its work tree lies elsewhere, and its own daemon builds the change request.

        A change request would be built of a work tree that is not there.
        """
        async with open_life() as one, open_life(daemon_id=OTHER) as two:
            theirs = await one.transact(lambda repos: make.seed(repos, "one"))
            ours = await two.transact(lambda repos: make.seed(repos, "two"))
            await one.transact(lambda repos: repos.runs.insert(make.run(theirs.room)))
            await two.transact(lambda repos: repos.runs.insert(make.run(ours.room)))
            assert await one.read(lambda repos: repos.runs.unfinished_rooms()) == (theirs.room.id,)
            assert await two.read(lambda repos: repos.runs.unfinished_rooms()) == (ours.room.id,)


def _begin(identifier: UUID, about: About, repos: Repos) -> object:
    return repos.operations.begin(identifier, "export", "{}", about)
