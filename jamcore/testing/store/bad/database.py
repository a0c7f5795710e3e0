"""Faults of the database itself: its rules hold for what Jam's repositories write and not for whoever writes past them."""

from __future__ import annotations

from typing import Any

import pytest

import jamcore.store.engine as engine_module
from jamcore.domain.errors import ConflictError
from jamcore.store.repos.rooms import Bindings
from jamcore.store.tables.hosts import BINDINGS
from jamcore.testing.store.bad.fault import around, found_by


def on_opening(patch: pytest.MonkeyPatch, *statements: str) -> None:
    """Let each opening say this to the database once its schema is up to date."""

    def upgrade(good: Any, engine: Any, files: Any) -> None:
        good(engine, files)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    around(patch, engine_module, "upgrade", upgrade)


def _weaken(patch: pytest.MonkeyPatch, index: str, on: str, where: str) -> None:
    """Let a unique index hold for fewer rows."""
    on_opening(patch, f"DROP INDEX IF EXISTS {index}", f"CREATE UNIQUE INDEX {index} ON {on} WHERE {where}")


@found_by("test_a_second_live_shared_host")
def allows_a_second_shared_host_once_it_is_active(patch: pytest.MonkeyPatch) -> None:
    """An active host does not count."""
    _weaken(
        patch,
        "uq_hosts_one_live_shared",
        "hosts (agent_id)",
        "placement = 'shared' AND state NOT IN ('archived', 'removed', 'active')",
    )


@found_by("test_a_second_running_operation")
def allows_a_second_operation_that_has_a_result(patch: pytest.MonkeyPatch) -> None:
    """One that has not ended and has a result all the same does not count."""
    _weaken(patch, "uq_operations_one_unfinished", "operations (workspace_id)", "state IN ('pending', 'running') AND result = ''")


@found_by("test_a_second_live_binding")
def looks_for_a_binding_by_itself(patch: pytest.MonkeyPatch) -> None:
    """The repository refuses a second live binding, and the database does not."""

    def insert(good: Any, self: Any, binding: Any) -> None:
        room = (BINDINGS.c.room_id == binding.room_id) & BINDINGS.c.live & (BINDINGS.c.id != binding.id)
        if binding.live and self._rows(room):
            raise ConflictError(kind=self.kind, ref=str(binding.id), problem="the room is bound to a session")
        good(self, binding)

    _weaken(patch, "uq_bindings_one_live_of_room", "bindings (room_id)", "live = 1 AND room_id = ''")
    around(patch, Bindings, "insert", insert)


@found_by("test_a_second_unsaved_record_of_a_host")
def looks_for_an_unsaved_host_by_itself(patch: pytest.MonkeyPatch) -> None:
    """The repository goes on with the record that there is, and the database takes a second."""
    _weaken(patch, "uq_unsaved_hosts_one_open", "unsaved_hosts (host_id)", "settlement = ''")


@found_by("test_a_second_clean_up_of_a_host")
def allows_a_second_clean_up_once_the_root_is_gone(patch: pytest.MonkeyPatch) -> None:
    """One that has removed the host's directory does not count."""
    _weaken(patch, "uq_host_cleanups_one_of_host", "host_cleanups (host_id)", "stage NOT IN ('succeeded', 'root-removed')")


@found_by("test_the_same_key_twice")
def leaves_out_a_second_lease(patch: pytest.MonkeyPatch) -> None:
    """A key that is there already is left out without a word."""
    there = "SELECT 1 FROM leases WHERE host_id = NEW.host_id AND session_id = NEW.session_id"
    _ignore(patch, "leases", f"EXISTS ({there})")


@found_by("test_a_reference_to_nothing")
def leaves_out_a_rule_of_nothing(patch: pytest.MonkeyPatch) -> None:
    """A rule that was made of an approval that is not there is left out without a word."""
    _ignore(patch, "approval_rules", "NOT EXISTS (SELECT 1 FROM approvals WHERE id = NEW.created_by_approval)")


def _ignore(patch: pytest.MonkeyPatch, table: str, when: str) -> None:
    trigger = f"CREATE TRIGGER IF NOT EXISTS left_out BEFORE INSERT ON {table} WHEN {when}"
    on_opening(patch, f"{trigger} BEGIN SELECT RAISE(IGNORE); END")
