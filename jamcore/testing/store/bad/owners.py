"""Faults of ownership: of lives, of daemons, and of what is kept of unsaved hosts and of verifications."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from sqlalchemy import Table, delete, select, update

import jamcore.store.engine as engine_module
from jamcore.domain.cells import Placement
from jamcore.domain.errors import NotFoundError
from jamcore.store import FencedError
from jamcore.store.repos.hosts import Hosts, Leases
from jamcore.store.repos.operations import Operations
from jamcore.store.repos.safekeeping import UnsavedHosts, Verifications
from jamcore.store.repos.work import Runs
from jamcore.store.tables.hosts import BINDINGS, HOSTS, LEASES, SESSIONS
from jamcore.store.tables.safekeeping import UNSAVED_HOSTS, VERIFICATIONS
from jamcore.store.tables.work import CHANGES, RUNS
from jamcore.testing.store.bad.fault import around, found_by


def _leaves(patch: pytest.MonkeyPatch, table: Table) -> None:
    """Let the next life not adopt the rows of a table."""

    def take_over(good: Any, connection: Any, daemon_id: Any) -> Any:
        fence = good(connection, daemon_id)
        connection.execute(update(table).where(table.c.daemon_id == daemon_id).values(fence_epoch=fence.epoch - 1))
        return fence

    around(patch, engine_module, "take_over", take_over)


@found_by("test_a_new_row_belongs_to_the_one_who_writes_it")
def returns_the_epoch_that_it_was_given(patch: pytest.MonkeyPatch) -> None:
    """A new host comes back with its record's epoch, and not with the one that it is stored with."""

    def insert(good: Any, self: Any, host: Any) -> Any:
        kept = good(self, host)
        dedicated = host.cell.placement is Placement.DEDICATED
        return kept.model_copy(update={"fence_epoch": host.fence_epoch}) if dedicated else kept

    around(patch, Hosts, "insert", insert)


@found_by("test_the_next_life_adopts_hosts_leases_and_operations")
def leaves_leases_to_the_former_life(patch: pytest.MonkeyPatch) -> None:
    """The next life does not own the leases of the last one."""
    _leaves(patch, LEASES)


@found_by("test_a_former_life_writes_nothing")
def asks_for_the_epoch_of_fenced_rows_alone(patch: pytest.MonkeyPatch) -> None:
    """A former life writes whatever has no fence of its own."""
    patch.setattr(engine_module, "require_epoch", lambda _connection, _fence: None)


@found_by("test_two_daemons_with_one_database_keep_to_their_own")
def begins_an_operation_on_a_session_of_anybody(patch: pytest.MonkeyPatch) -> None:
    """It does not look whose the session is that an operation is about."""

    def require_our_hosts(good: Any, self: Any, about: Any) -> None:
        good(self, about.model_copy(update={"session_id": None}))

    around(patch, Operations, "_require_our_hosts", require_our_hosts)


@found_by("test_a_lease_of_another_daemon_cannot_be_given_back")
def gives_back_anybodys_lease(patch: pytest.MonkeyPatch) -> None:
    """It does not look whose a lease is."""

    def release(_good: Any, self: Any, host: Any, session: Any) -> None:
        self._connection.execute(delete(LEASES).where(LEASES.c.host_id == host, LEASES.c.session_id == session))

    around(patch, Leases, "release", release)


@found_by("test_a_lost_race_is_told_from_a_lost_host")
def calls_an_unknown_host_a_lost_one(patch: pytest.MonkeyPatch) -> None:
    """A host that is not there was taken over by somebody."""

    def move(good: Any, self: Any, identifier: Any, new: Any) -> Any:
        try:
            return good(self, identifier, new)
        except NotFoundError as error:
            raise FencedError(kind=self.kind, ref=str(identifier)) from error

    around(patch, Hosts, "move", move)


@found_by("test_a_run_of_another_daemon_is_not_taken_up")
def takes_up_anybodys_run(patch: pytest.MonkeyPatch) -> None:
    """It does not look on whose host a run is."""

    def unfinished_rooms(_good: Any, self: Any) -> Any:
        runs = select(RUNS.c.room_id).join(BINDINGS, BINDINGS.c.room_id == RUNS.c.room_id)
        hosted = runs.join(SESSIONS, SESSIONS.c.id == BINDINGS.c.session_id).join(HOSTS, HOSTS.c.id == SESSIONS.c.host_id)
        return tuple(self._connection.execute(hosted.where(RUNS.c.change_id.not_in(select(CHANGES.c.id)))).scalars())

    around(patch, Runs, "unfinished_rooms", unfinished_rooms)


@found_by("test_a_host_is_unsaved_once_until_that_is_settled")
def keeps_the_older_problem(patch: pytest.MonkeyPatch) -> None:
    """A second failure of an unsaved host is not told."""

    def note(good: Any, self: Any, failed: Any) -> Any:
        known = self.open_of_host(failed.host_id)
        noted = good(self, failed)
        if known is None:
            return noted
        self._change(known.id, {"problem": known.problem})
        return self.open_of_host(failed.host_id)

    around(patch, UnsavedHosts, "note", note)


@found_by("test_the_next_life_of_the_daemon_settles_it_and_the_former_one_does_not")
def leaves_unsaved_hosts_to_the_former_life(patch: pytest.MonkeyPatch) -> None:
    """The next life cannot settle what the last one could not save."""
    _leaves(patch, UNSAVED_HOSTS)


@found_by("test_another_daemons_record_is_left_alone")
def notes_what_it_has_not_seen(patch: pytest.MonkeyPatch) -> None:
    """A verification of a generation in another daemon's directory is kept."""
    patch.setattr(Verifications, "_require_our_host", lambda _self, _host: None)


@found_by("test_a_verification_remembers_the_last_time_it_was_sound")
def forgets_when_it_was_sound(patch: pytest.MonkeyPatch) -> None:
    """Damage was always there."""

    def note(good: Any, self: Any, checkpoint: Any, host: Any, problem: str = "") -> Any:
        noted = good(self, checkpoint, host, problem)
        if not problem:
            return noted
        self._connection.execute(update(VERIFICATIONS).where(VERIFICATIONS.c.checkpoint_id == checkpoint).values(sound_at=None))
        return self.of_checkpoint(checkpoint)

    around(patch, Verifications, "note", note)


@found_by("test_two_who_verify_one_generation_at_once_leave_one_row")
def fails_where_another_one_was_quicker(patch: pytest.MonkeyPatch) -> None:
    """A row that came between the look and the insertion is an error."""
    patch.setattr(Verifications, "_unless_taken", lambda _self, _ref, _problem: nullcontext())
