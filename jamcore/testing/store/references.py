"""How a person names a record: by name, by id, or by a part of the id that is long enough."""

from __future__ import annotations

from uuid import UUID

import pytest

from jamcore.domain.errors import InvalidInputError, NotFoundError
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed

FIRST = UUID("019a0000-1111-7000-8000-00000000aaaa")
SECOND = UUID("019a0000-2222-7000-8000-00000000bbbb")
"""Made within a minute: the first eight characters are equal."""


class ReferenceTests(StoreTests):
    """How records are named."""

    @pytest.fixture
    async def rooms(self, store: Store, seeded: Seed, make: Records) -> Store:
        """A store with the two rooms."""

        def write(repos: Repos) -> None:
            repos.rooms.insert(make.room(seeded.agent, "one", identifier=FIRST))
            repos.rooms.insert(make.room(seeded.agent, "face", identifier=SECOND))

        await store.transact(write)
        return store

    @pytest.mark.parametrize("ref", ["one", str(FIRST), "019a0000-1111", "019A0000-1", "0000aaaa"])
    async def test_what_names_one_record_finds_it(self, rooms: Store, ref: str) -> None:
        """A name, the whole id, or eight characters or more of its beginning or its end.

        People paste what they have, in the case in which a terminal or a page showed it.
        """
        assert (await rooms.read(lambda repos: repos.rooms.find(ref))).id == FIRST

    async def test_a_name_that_could_be_part_of_an_id_is_a_name(self, rooms: Store) -> None:
        """However short.

        A room that is called `face` could not be named at all.
        """
        assert (await rooms.read(lambda repos: repos.rooms.find("face"))).id == SECOND

    @pytest.mark.parametrize(
        ("ref", "problem"),
        [
            ("019a00", "at least 8 characters"),
            ("aaaa", "at least 8 characters"),
            ("019a0000", "give more characters, or the last ones"),
        ],
    )
    async def test_too_little_of_an_id_is_refused_with_what_is_enough(self, rooms: Store, ref: str, problem: str) -> None:
        """Not as an unknown record: it is known, and the person is told how to name it.

        Who is told that there is no such room looks for a lost one.
        """
        with pytest.raises(InvalidInputError) as refused:
            await rooms.read(lambda repos: repos.rooms.find(ref))
        assert problem in refused.value.problem

    @pytest.mark.parametrize("ref", ["dead", "nobody", "019a0000-3333", str(UUID(int=9))])
    async def test_what_names_nothing_is_not_found(self, rooms: Store, ref: str) -> None:
        """Also when it could be part of an id.

        Who is told to give more characters of what does not exist tries for ever.
        """
        with pytest.raises(NotFoundError):
            await rooms.read(lambda repos: repos.rooms.find(ref))
