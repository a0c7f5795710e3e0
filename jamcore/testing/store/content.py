"""What columns hold: any text, whole numbers of bytes, instants; and in which order they come back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from uuid import UUID

import pytest

from jamcore.domain.events import CommandOutput
from jamcore.domain.retention import DeletionStage, PayloadDeletion
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "nothing": "",
        "unicode": "h\u00e9llo \U0001f600 \u202etfel \u0130",
        "not normalised": "e\u0301 \u00e9",
        "control": "\x1b[31m\x07\x7f\r\n\t",
        "nul": "a\0b",
        "only nul": "\0",
        "what stands for nul": "\ufdd0 \ufdd00 \ufdd0\ufdd0 \0\ufdd0",
        "noncharacters": "\ufffe\uffff\U0010ffff",
        "quotes": "'; DROP TABLE turns; -- \\ \" %s %(a)s :b ?",
        "long": "0123456789abcdef" * 131_072,
    }
)


class ContentTests(StoreTests):
    """Nothing is lost, cut or changed on the way."""

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    async def test_any_text(self, store: Store, make: Records, seeded: Seed, text: str) -> None:
        """Text comes back as it went in, an exact retry knows it again, and what is one character shorter is another text.

        What an agent prints has every character; a text that is cut or changed is another one to an exact retry.
        """
        turn = make.turn(seeded.room, seeded.session, text)
        for _ in range(2):
            await store.transact(lambda repos: repos.turns.accept(turn))
        assert (await store.read(lambda repos: repos.turns.get(turn.id))).text == text
        event = await store.transact(lambda repos: repos.events.append(seeded.room.id, None, [CommandOutput(item="i", text=text)]))
        assert await store.read(lambda repos: repos.events.after(seeded.room.id, 0, 10)) == event

    @pytest.mark.parametrize("name", ["nul\0name", "\ufdd0", "x" * 1000, "  ", "'"])
    async def test_a_text_is_found_by_itself(self, store: Store, make: Records, name: str) -> None:
        """Two names that differ in one character are two names, and each is found; no column cuts one.

        A name that is cut on its way to the database is never found again.
        """
        agents = [make.agent(name), make.agent(name + "a")]
        await store.transact(lambda repos: [repos.agents.insert(agent) for agent in agents])
        for agent in agents:
            assert await store.read(lambda repos, agent=agent: repos.agents.by_name(agent.name)) == agent  # type: ignore[misc]

    async def test_text_is_ordered_by_its_bytes(self, store: Store, make: Records) -> None:
        """Whatever language the database speaks: two databases list the same names in the same order.

        Lists and digests that depend on the server's language differ between two machines.
        """
        names = ["b", "B", "a", "A", "\u00e4", "z", "_", "-a", "a-b", "ab", "10", "9", "\U0001f600", "\uff5e"]
        await store.transact(lambda repos: [repos.agents.insert(make.agent(name)) for name in names])
        listed = [agent.name for agent in await store.read(lambda repos: repos.agents.list())]
        assert listed == sorted(names, key=lambda name: name.encode())

    async def test_case_counts(self, store: Store, make: Records) -> None:
        """Names that differ in nothing but case, or in how a letter is composed, are different.

        A database that takes two names for one refuses a room for a reason that nobody sees, or gives somebody else's.
        """
        names = ["name", "Name", "\u00e9", "e\u0301"]
        await store.transact(lambda repos: [repos.agents.insert(make.agent(name)) for name in names])
        assert len(await store.read(lambda repos: repos.agents.list())) == len(names)

    async def test_ids_decide_between_equal_times(self, store: Store, make: Records, seeded: Seed) -> None:
        """What was made at one instant is ordered by the bytes of its id.

        Without an order of their own two lists of the same rooms differ, and a page of one leaves a room out.
        """
        ids = [UUID(int=number << 64) for number in (0xF0, 0x0F, 0xA0, 0x9A, 0xFF00000000, 0x1)]
        rooms = [make.room(seeded.agent, str(place), identifier=identifier) for place, identifier in enumerate(ids)]
        await store.transact(lambda repos: [repos.rooms.insert(room) for room in rooms])
        listed = [room.id for room in await store.read(lambda repos: repos.rooms.list()) if room.id in ids]
        assert listed == sorted(ids, key=lambda identifier: identifier.bytes, reverse=True)

    @pytest.mark.parametrize("size", [0, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1])
    async def test_sizes_of_any_disk(self, store: Store, make: Records, seeded: Seed, size: int) -> None:
        """Bytes are counted exactly up to what a file system can hold.

        A count that overflows or is rounded lets a removal confirm another size than was shown.
        """

        def remove(repos: Repos) -> PayloadDeletion | None:
            checkpoint = repos.checkpoints.insert(make.checkpoint(seeded.host))
            planned = repos.payload_deletions.prepare(make.payload_deletion(checkpoint, planned_bytes=size))
            repos.payload_deletions.advance(planned.removal_id, DeletionStage.PAYLOAD_REMOVED, freed={checkpoint.id: size})
            return repos.payload_deletions.of_checkpoint(checkpoint.id)

        kept = await store.transact(remove)
        assert kept is not None
        assert (kept.planned_bytes, kept.freed_bytes) == (size, size)

    async def test_large_counts_of_bytes_in_records(self, store: Store, make: Records, seeded: Seed) -> None:
        """A generation of more than 4 GiB says so.

        A size that is cut to 32 bits makes a large generation look small, and quotas let it pass.
        """
        large = make.checkpoint(seeded.host).model_copy(update={"bytes_total": 2**40 + 1, "bytes_written": 2**33})
        await store.transact(lambda repos: repos.checkpoints.insert(large))
        kept = await store.read(lambda repos: repos.checkpoints.get(large.id))
        assert (kept.bytes_total, kept.bytes_written) == (2**40 + 1, 2**33)

    async def test_instants(self, store: Store, make: Records) -> None:
        """To the microsecond and in UTC, whatever zone they were told in and whatever zone the database is in.

        An instant that is moved by a zone or rounded changes the order of what happened.
        """
        moments = [
            datetime(2026, 3, 29, 1, 59, 59, 999999, tzinfo=UTC),
            datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
            datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ]
        agents = [make.agent(str(place)).model_copy(update={"created_at": at}) for place, at in enumerate(moments)]
        await store.transact(lambda repos: [repos.agents.insert(agent) for agent in agents])
        kept = [agent.created_at for agent in await store.read(lambda repos: repos.agents.list())]
        assert kept == moments
        assert {at.utcoffset() for at in kept} == {timedelta(0)}

    async def test_truth_values(self, store: Store, make: Records, seeded: Seed) -> None:
        """A binding that has ended is false, not zero, and is not found among the live ones.

        A zero is not false where records are strict, and a truth that is compared as text is always true.
        """
        binding = await store.read(lambda repos: repos.bindings.live_of_room(seeded.room.id))
        await store.transact(lambda repos: repos.bindings.release(binding.id))
        assert (await store.read(lambda repos: repos.bindings.of_session(seeded.session.id))).live is False
        again = make.binding(seeded.room, seeded.session)
        await store.transact(lambda repos: repos.bindings.insert(again))
        assert await store.read(lambda repos: repos.bindings.live_of_room(seeded.room.id)) == again
