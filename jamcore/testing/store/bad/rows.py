"""Faults of what repositories answer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

import jamcore.store.repos.turns as turns_module
from jamcore.domain.continuity import ActivationDecision
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.sessions import HostState, TurnState
from jamcore.store.repos.base import Repository
from jamcore.store.repos.continuity import Activations, Checkpoints, Observations
from jamcore.store.repos.hosts import Agents, Hosts, Leases, Sessions, Workspaces
from jamcore.store.repos.rooms import Bindings, Events, Rooms
from jamcore.store.repos.turns import Turns
from jamcore.store.repos.work import Changes, Runs
from jamcore.store.tables.continuity import ACTIVATIONS
from jamcore.store.tables.hosts import BINDINGS, HOSTS, SESSIONS
from jamcore.store.tables.work import RUNS
from jamcore.testing.store.bad.fault import around, found_by


@found_by("test_an_agent_has_one_live_shared_host")
def loses_what_is_written_after_a_conflict(patch: pytest.MonkeyPatch) -> None:
    """What a transaction writes after a host was refused is not kept."""
    lost: list[object] = []

    def insert_host(good: Any, self: Any, host: Any) -> Any:
        try:
            return good(self, host)
        except ConflictError:
            lost.append(self._context)
            raise

    def insert_agent(good: Any, self: Any, agent: Any) -> Any:
        return agent if any(context is self._context for context in lost) else good(self, agent)

    around(patch, Hosts, "insert", insert_host)
    around(patch, Agents, "insert", insert_agent)


@found_by("test_a_host_that_is_gone_does_not_count")
def takes_an_archived_host_for_a_live_one(patch: pytest.MonkeyPatch) -> None:
    """The agent's archived Shared host is returned where there is no live one."""

    def live_shared(good: Any, self: Any, agent: Any) -> Any:
        shared = (HOSTS.c.agent_id == agent) & (HOSTS.c.placement == "shared")
        gone = self._rows(shared, HOSTS.c.state == HostState.ARCHIVED.value, limit=1)
        return good(self, agent) or (self.get(gone[0]["id"]) if gone else None)

    around(patch, Hosts, "live_shared", live_shared)


@found_by("test_an_identity_is_bound_once")
def binds_an_identity_anew(patch: pytest.MonkeyPatch) -> None:
    """The last identity that was reported is the session's."""

    def bind_identity(_good: Any, self: Any, identifier: Any, identity: str) -> Any:
        self._connection.execute(update(SESSIONS).where(SESSIONS.c.id == identifier).values(provider_identity=identity))
        return self.get(identifier)

    around(patch, Sessions, "bind_identity", bind_identity)


@found_by("test_a_room_has_one_live_binding")
def takes_a_room_from_its_session(patch: pytest.MonkeyPatch) -> None:
    """A second live binding ends the first."""

    def insert(good: Any, self: Any, binding: Any) -> None:
        try:
            good(self, binding)
        except ConflictError:
            if not binding.live:
                raise
            self.release(self.live_of_room(binding.room_id).id)
            good(self, binding)

    around(patch, Bindings, "insert", insert)


@found_by("test_what_a_room_is_bound_to_is_one_look")
def follows_a_binding_that_has_ended(patch: pytest.MonkeyPatch) -> None:
    """A room that is bound to no session leads to the one that it was bound to."""

    def bound_to(good: Any, self: Any, room: Any) -> Any:
        try:
            return good(self, room)
        except NotFoundError:
            bound = select(BINDINGS.c.session_id).where(BINDINGS.c.room_id == room)
            session = self.get(self._connection.execute(bound).scalars().one())
            return session, Hosts(self._context).get(session.host_id), Workspaces(self._context).of_session(session.id)

    around(patch, Sessions, "bound_to", bound_to)


@found_by("test_names_of_rooms_are_unique")
def refuses_a_name_without_naming_it(patch: pytest.MonkeyPatch) -> None:
    """The refusal says that something is taken."""

    def insert(good: Any, self: Any, room: Any) -> Any:
        try:
            return good(self, room)
        except ConflictError as error:
            raise ConflictError(kind=self.kind, ref="", problem="it is taken") from error

    around(patch, Rooms, "insert", insert)


@found_by("test_rooms_and_changes_come_newest_first")
def lists_the_oldest_change_first(patch: pytest.MonkeyPatch) -> None:
    """Change requests come in the order in which they were made."""
    around(patch, Changes, "list", lambda good, self: good(self)[::-1])


@found_by("test_turns_keep_their_order_when_the_clock_goes_back")
def orders_turns_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """A session's turns come by the time at which they were accepted."""
    around(
        patch,
        Turns,
        "of_session",
        lambda good, self, session: tuple(sorted(good(self, session), key=lambda turn: turn.accepted_at)),
    )


@found_by("test_unfinished_turns_are_those_that_are_not_safe_yet")
def takes_a_completed_turn_for_a_safe_one(patch: pytest.MonkeyPatch) -> None:
    """What the provider has ended is not captured any more."""
    patch.setattr(turns_module, "UNFINISHED", (TurnState.ACCEPTED.value, TurnState.RUNNING.value))


@found_by("test_a_turn_remembers_what_became_known")
def forgets_the_detail_of_a_turn(patch: pytest.MonkeyPatch) -> None:
    """Each step sets the detail, also one that knows none."""
    around(patch, Turns, "move", lambda good, self, *moved, **known: good(self, *moved, **({"detail": ""} | known)))


@found_by("test_events_come_back_as_they_went_in")
def returns_more_events_than_were_asked_for(patch: pytest.MonkeyPatch) -> None:
    """A page is everything that there is."""
    around(patch, Events, "after", lambda good, self, room, seq, _limit: good(self, room, seq, 1_000_000))


@found_by("test_numbers_of_a_failed_transaction_are_used_again")
def never_gives_a_number_twice(patch: pytest.MonkeyPatch) -> None:
    """Numbers of events are those of a sequence, which no rollback takes back."""
    given: dict[object, int] = {}

    def reserve(good: Any, self: Any, room: Any, count: int) -> int:
        first: int = good(self, room, count)
        while first <= given.get(room, 0):
            first = good(self, room, count)
        given[room] = first + count - 1
        return first

    around(patch, Events, "_reserve", reserve)


@found_by("test_generations_are_numbered_within_their_host")
def numbers_generations_of_all_hosts_together(patch: pytest.MonkeyPatch) -> None:
    """The next generation of a host has the number after the last one of any."""
    patch.setattr(Checkpoints, "_next", lambda self, column, *_where: Repository._next(self, column))


@found_by("test_the_latest_observation_is_the_last_recorded")
def orders_observations_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """The latest is the one with the latest time."""

    def latest(_good: Any, self: Any, checkpoint: Any, session: Any) -> Any:
        found = (each for each in self.of_session(session) if each.checkpoint_id == checkpoint)
        return max(found, key=lambda each: each.observed_at, default=None)

    around(patch, Observations, "latest", latest)


@found_by("test_the_latest_decision_is_the_last_recorded")
def orders_decisions_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    """The latest is the one with the latest time."""

    def latest_of_session(_good: Any, self: Any, session: Any) -> Any:
        rows = self._rows(ACTIVATIONS.c.session_id == session, order=[ACTIVATIONS.c.decided_at.desc()], limit=1)
        return ActivationDecision.model_validate_json(rows[0]["decision"]) if rows else None

    around(patch, Activations, "latest_of_session", latest_of_session)


@found_by("test_a_run_is_unfinished_until_its_change_request_is_there")
def never_finishes_a_run(patch: pytest.MonkeyPatch) -> None:
    """Every run on this daemon's hosts is unfinished."""

    def unfinished_rooms(_good: Any, self: Any) -> Any:
        ours = HOSTS.c.daemon_id == self._context.fence.daemon_id
        runs = select(RUNS.c.room_id).join(BINDINGS, BINDINGS.c.room_id == RUNS.c.room_id)
        hosted = runs.join(SESSIONS, SESSIONS.c.id == BINDINGS.c.session_id).join(HOSTS, HOSTS.c.id == SESSIONS.c.host_id)
        return tuple(self._connection.execute(hosted.where(ours)).scalars())

    around(patch, Runs, "unfinished_rooms", unfinished_rooms)


@found_by("test_a_lease_is_taken_once_and_given_back_once")
def refuses_a_lease_that_is_held(patch: pytest.MonkeyPatch) -> None:
    """To take a lease again is an error."""

    def acquire(good: Any, self: Any, host: Any, session: Any) -> None:
        if session in self.live_of_host(host):
            raise ConflictError(kind=self.kind, ref=str(host), problem="it is held already")
        good(self, host, session)

    around(patch, Leases, "acquire", acquire)
