"""What the store keeps of failed final checkpoints and of verifications (CONT-8)."""

from __future__ import annotations

from uuid import UUID

import pytest
from sqlalchemy import event

from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.safekeeping import UnsavedHost, Verification
from jamcore.store import FencedError, Repos, Store
from jamcore.store.tables.safekeeping import VERIFICATIONS
from jamcore.testing.store.base import OTHER, Feature, OpenLife, StoreTests, asked_of, raw
from jamcore.testing.store.records import Records, Seed

ONE, TWO = UUID(int=1), UUID(int=2)
TURNS = (UUID(int=3), UUID(int=4))


def failure(seeded: Seed, make: Records, identifier: UUID = ONE, problem: str = "no space") -> UnsavedHost:
    """Return a failed final checkpoint of the host."""
    now = make.clock.now()
    return UnsavedHost(id=identifier, host_id=seeded.host.id, code="continuity.checkpoint_failed", problem=problem, failed_at=now)


class SafekeepingTests(StoreTests):
    """Failed final checkpoints and verifications."""

    @pytest.mark.guarantee("CONT-8")
    async def test_a_host_is_unsaved_once_until_that_is_settled(self, store: Store, seeded: Seed, make: Records) -> None:
        """A second failure is the same trouble with a newer problem; what was settled stays as a record, and the next is a new one.

        A person who accepts a loss has to see its newest reason, and has accepted that one alone.
        """
        first = await store.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make)))
        again = await store.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make, TWO, "a log is gone")))
        assert (again.id, again.problem) == (first.id, "a log is gone")
        assert await store.read(lambda repos: repos.unsaved_hosts.open_of_host(seeded.host.id)) == again
        now = make.clock.now()
        settled = await store.transact(
            lambda repos: repos.unsaved_hosts.settle(ONE, "accepted", settled_at=now, detail="cut", turns=TURNS)
        )
        assert (settled.settlement, settled.turns, settled.detail) == ("accepted", TURNS, "cut")
        assert await store.read(lambda repos: repos.unsaved_hosts.open_of_host(seeded.host.id)) is None
        with pytest.raises(ConflictError):
            await store.transact(lambda repos: repos.unsaved_hosts.settle(ONE, "checkpoint", settled_at=now))
        with pytest.raises(NotFoundError):
            await store.transact(lambda repos: repos.unsaved_hosts.settle(TWO, "checkpoint", settled_at=now))
        new = await store.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make, TWO)))
        assert await store.read(lambda repos: repos.unsaved_hosts.of_host(seeded.host.id)) == (settled, new)

    @pytest.mark.guarantee("CONT-8", "SHARE-2")
    async def test_the_next_life_of_the_daemon_settles_it_and_the_former_one_does_not(
        self, open_life: OpenLife, make: Records
    ) -> None:
        """The record outlives the daemon, and belongs to whoever has the app directory now.

        A host that was not saved is most often settled after a restart.
        """
        async with open_life() as old:
            seeded = await old.transact(make.seed)
            await old.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make)))
            async with open_life() as new:
                now = make.clock.now()
                with pytest.raises(FencedError):
                    await old.transact(lambda repos: repos.unsaved_hosts.settle(ONE, "checkpoint", settled_at=now))
                kept = await new.transact(lambda repos: repos.unsaved_hosts.settle(ONE, "checkpoint", settled_at=now))
                assert kept.settlement == "checkpoint"

    @asked_of(Feature.SEVERAL_DAEMONS)
    async def test_another_daemons_record_is_left_alone(self, open_life: OpenLife, make: Records) -> None:
        """Two daemons may share a database; a host's trouble is its own daemon's, and whoever does not see its files finds no damage.

        A generation that lies elsewhere would be called lost.
        """
        async with open_life() as store, open_life(daemon_id=OTHER) as other:
            seeded = await store.transact(make.seed)
            kept = await store.transact(lambda repos: repos.checkpoints.insert(make.checkpoint(seeded.host)))
            with pytest.raises(FencedError):
                await other.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make, TWO)))
            with pytest.raises(FencedError):
                await other.transact(lambda repos: repos.verifications.note(kept.id, seeded.host.id, "it is gone"))
            assert await store.read(lambda repos: repos.verifications.of_checkpoint(kept.id)) is None
            await store.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make)))
            with pytest.raises(FencedError):
                await other.transact(lambda repos: repos.unsaved_hosts.note(failure(seeded, make, TWO)))

    async def test_a_verification_remembers_the_last_time_it_was_sound(self, store: Store, seeded: Seed, make: Records) -> None:
        """Damage that is found later does not change when it was sound; soundness afterwards takes the damage back.

        That is the only thing that says which backup still has it.
        """
        kept = await store.transact(lambda repos: repos.checkpoints.insert(make.checkpoint(seeded.host)))
        assert await store.read(lambda repos: repos.verifications.of_checkpoint(kept.id)) is None
        first = await store.transact(lambda repos: repos.verifications.note(kept.id, seeded.host.id))
        assert first.sound_at == first.checked_at
        make.clock.turn(3600)
        bad = await store.transact(lambda repos: repos.verifications.note(kept.id, seeded.host.id, "a block is damaged"))
        assert (bad.sound_at, bad.problem) == (first.sound_at, "a block is damaged")
        assert bad.checked_at > first.checked_at
        make.clock.turn(3600)
        good = await store.transact(lambda repos: repos.verifications.note(kept.id, seeded.host.id))
        assert (good.sound_at, good.problem) == (good.checked_at, "")
        assert good.checked_at > bad.checked_at
        assert await store.read(lambda repos: repos.verifications.of_checkpoint(kept.id)) == good

    async def test_two_who_verify_one_generation_at_once_leave_one_row(self, store: Store, seeded: Seed, make: Records) -> None:
        """The row of the other one comes between the look and the insertion: it is changed, and neither fails.

        A nightly check beside a person's own would end with an error that says nothing of the generation.
        """
        kept = await store.transact(lambda repos: repos.checkpoints.insert(make.checkpoint(seeded.host)))

        def note(repos: Repos) -> Verification:
            connection, fence = raw(repos), store.fence

            @event.listens_for(connection, "after_cursor_execute", once=True)
            def overtaken(*_arguments: object) -> None:
                theirs = {"checkpoint_id": kept.id, "host_id": seeded.host.id, "checked_at": make.clock.now(), "problem": "theirs"}
                owned = {"daemon_id": fence.daemon_id, "fence_epoch": fence.epoch}
                connection.execute(VERIFICATIONS.insert().values(**theirs, **owned))

            return repos.verifications.note(kept.id, seeded.host.id, "ours")

        noted = await store.transact(note)
        assert noted.problem == "ours"
        assert await store.read(lambda repos: repos.verifications.of_checkpoint(kept.id)) == noted
