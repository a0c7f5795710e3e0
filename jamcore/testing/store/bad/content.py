"""Faults of columns, of orders, and of how records are named."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

import jamcore.store.repos.rooms as rooms_module
from jamcore.domain.errors import ConflictError, InvalidInputError, NotFoundError
from jamcore.store.repos.continuity import Checkpoints
from jamcore.store.repos.hosts import Agents
from jamcore.store.repos.retention import PayloadDeletions
from jamcore.store.repos.rooms import Bindings, Rooms
from jamcore.store.repos.turns import Turns
from jamcore.testing.store.bad.fault import around, found_by

COLUMN = 64
"""How long a name's column was made, and how long a part of an id never is."""
_HEX = re.compile(r"[0-9a-f-]{4,35}\Z")


@found_by("test_any_text")
def ends_a_text_at_its_nul(patch: pytest.MonkeyPatch) -> None:
    """A turn's text comes back as a string of C."""

    def get(good: Any, self: Any, identifier: Any) -> Any:
        turn = good(self, identifier)
        return turn.model_copy(update={"text": turn.text.partition("\0")[0]})

    around(patch, Turns, "get", get)


@found_by("test_a_text_is_found_by_itself")
def looks_for_as_much_as_the_column_holds(patch: pytest.MonkeyPatch) -> None:
    """A longer name is cut before it is compared."""
    around(patch, Agents, "by_name", lambda good, self, name: good(self, name[:COLUMN]))


@found_by("test_text_is_ordered_by_its_bytes")
def orders_names_as_people_do(patch: pytest.MonkeyPatch) -> None:
    """Upper and lower case stand beside each other."""
    around(patch, Agents, "list", lambda good, self: tuple(sorted(good(self), key=lambda agent: agent.name.casefold())))


@found_by("test_case_counts")
def takes_two_ways_to_compose_a_letter_for_one(patch: pytest.MonkeyPatch) -> None:
    """Names are compared after they were normalised."""

    def insert(good: Any, self: Any, agent: Any) -> Any:
        name = unicodedata.normalize("NFC", agent.name)
        if any(unicodedata.normalize("NFC", other.name) == name for other in self.list() if other.id != agent.id):
            raise ConflictError(kind=self.kind, ref=str(agent.id), problem="another agent has the name")
        return good(self, agent)

    around(patch, Agents, "insert", insert)


@found_by("test_ids_decide_between_equal_times")
def orders_rooms_of_one_instant_by_name(patch: pytest.MonkeyPatch) -> None:
    """Their ids decide nothing."""

    def listed(good: Any, self: Any) -> Any:
        by_name = sorted(good(self), key=lambda room: str(room.name))
        return tuple(sorted(by_name, key=lambda room: room.created_at, reverse=True))

    around(patch, Rooms, "list", listed)


@found_by("test_sizes_of_any_disk")
def keeps_sizes_as_floating_point(patch: pytest.MonkeyPatch) -> None:
    """Sizes of more than 2 to the power of 53 are rounded."""

    def of_checkpoint(good: Any, self: Any, checkpoint: Any) -> Any:
        found = good(self, checkpoint)
        return found and found.model_copy(update={"planned_bytes": int(float(found.planned_bytes))})

    around(patch, PayloadDeletions, "of_checkpoint", of_checkpoint)


@found_by("test_large_counts_of_bytes_in_records")
def keeps_32_bits_of_a_size(patch: pytest.MonkeyPatch) -> None:
    """A generation of more than 4 GiB is called small."""

    def get(good: Any, self: Any, identifier: Any) -> Any:
        found = good(self, identifier)
        return found.model_copy(update={"bytes_total": found.bytes_total & 0xFFFFFFFF})

    around(patch, Checkpoints, "get", get)


@found_by("test_instants")
def knows_no_time_before_1970(patch: pytest.MonkeyPatch) -> None:
    """What was earlier was then."""

    def dated(agent: Any) -> Any:
        return agent.model_copy(update={"created_at": max(agent.created_at, datetime(1970, 1, 1, tzinfo=UTC))})

    around(patch, Agents, "list", lambda good, self: tuple(dated(agent) for agent in good(self)))


@found_by("test_truth_values")
def gives_numbers_for_truth_values(patch: pytest.MonkeyPatch) -> None:
    """A binding that has ended is zero."""

    def of_session(good: Any, self: Any, session: Any) -> Any:
        binding = good(self, session)
        return binding.model_copy(update={"live": int(binding.live)})

    around(patch, Bindings, "of_session", of_session)


def _finds(patch: pytest.MonkeyPatch, find: Callable[..., Any]) -> None:
    around(patch, rooms_module, "find_by_ref", find)


@found_by("test_a_room_is_found_by_what_a_person_has")
def prefers_a_name_to_an_id(patch: pytest.MonkeyPatch) -> None:
    """A room that is called as another one's id is found by it."""

    def find(good: Any, repository: Any, ref: str, *, name: bool) -> Any:
        ids = repository.table.c.id
        called = select(ids).where(repository.table.c.name == ref) if name else select(ids).where(ids.is_(None))
        return repository._connection.execute(called).scalar() or good(repository, ref, name=name)

    _finds(patch, find)


@found_by("test_what_names_one_record_finds_it")
def knows_ids_in_lower_case_alone(patch: pytest.MonkeyPatch) -> None:
    """A part of an id in upper case names nothing."""

    def find(good: Any, repository: Any, ref: str, *, name: bool) -> Any:
        if ref != ref.lower() and _HEX.match(ref.lower()):
            raise NotFoundError(kind=repository.kind, ref=ref)
        return good(repository, ref, name=name)

    _finds(patch, find)


@found_by("test_a_name_that_could_be_part_of_an_id_is_a_name")
def takes_a_name_for_a_part_of_an_id(patch: pytest.MonkeyPatch) -> None:
    """What could be part of an id is looked for among ids alone."""

    def find(good: Any, repository: Any, ref: str, *, name: bool) -> Any:
        return good(repository, ref, name=name and not _HEX.match(ref))

    _finds(patch, find)


@found_by("test_too_little_of_an_id_is_refused_with_what_is_enough")
def does_not_say_what_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Too little of an id is refused without a way out."""

    def find(good: Any, repository: Any, ref: str, *, name: bool) -> Any:
        try:
            return good(repository, ref, name=name)
        except InvalidInputError as error:
            raise InvalidInputError(field=repository.kind, problem="it is too little") from error

    _finds(patch, find)


@found_by("test_what_names_nothing_is_not_found")
def asks_for_more_of_what_is_not_there(patch: pytest.MonkeyPatch) -> None:
    """What looks as a part of an id is called too short, though no id has it."""

    def find(good: Any, repository: Any, ref: str, *, name: bool) -> Any:
        try:
            return good(repository, ref, name=name)
        except NotFoundError as error:
            if len(ref) < rooms_module.SHORTEST_PREFIX and _HEX.match(ref):
                raise InvalidInputError(field=repository.kind, problem="give more characters") from error
            raise

    _finds(patch, find)
