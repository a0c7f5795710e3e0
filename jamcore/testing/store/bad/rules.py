"""Faults of retries, of steps, of operations and of exports from elsewhere."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import update

import jamcore.store.repos.operations as operations_module
from jamcore.domain.errors import ConflictError, IllegalTransitionError
from jamcore.domain.operations import OPERATION, UNFINISHED, OperationState
from jamcore.domain.sessions import TurnState
from jamcore.store.repos.continuity import Activations
from jamcore.store.repos.exports import Exports
from jamcore.store.repos.host_native import HostNativeWorkspaces
from jamcore.store.repos.hosts import Workspaces
from jamcore.store.repos.operations import Operations
from jamcore.store.repos.turns import Turns
from jamcore.testing.store.bad.fault import around, forgets, found_by


@found_by("test_an_exact_retry_changes_nothing_and_a_changed_one_is_refused")
def takes_another_place_for_the_same_workspace(patch: pytest.MonkeyPatch) -> None:
    """A known workspace may come again with another place in the guest."""
    forgets(patch, Workspaces, "guest_path")


@found_by("test_a_decision_is_kept_once")
def takes_another_decision_for_the_same(patch: pytest.MonkeyPatch) -> None:
    """The first one stays, and whoever brings another is told that it is kept."""

    def record(good: Any, self: Any, *recorded: Any) -> None:
        with suppress(ConflictError):
            good(self, *recorded)

    around(patch, Activations, "record", record)


@found_by("test_a_retry_of_a_turn_returns_what_became_of_it")
def answers_a_retry_with_what_was_asked(patch: pytest.MonkeyPatch) -> None:
    """A turn that is sent again is accepted, whatever became of it."""

    def accept(good: Any, self: Any, turn: Any) -> Any:
        good(self, turn)
        return turn

    around(patch, Turns, "accept", accept)


@found_by("test_every_pair")
def moves_as_it_is_told(patch: pytest.MonkeyPatch) -> None:
    """A step that the rules do not have is done with a host-native workspace."""

    def move(good: Any, self: Any, identifier: Any, new: Any) -> Any:
        try:
            return good(self, identifier, new)
        except IllegalTransitionError:
            self._connection.execute(update(self.table).where(self.table.c.id == identifier).values(state=new.value))

    around(patch, HostNativeWorkspaces, "move", move)


@found_by("test_a_captured_turn_names_its_generation")
def calls_a_turn_safe_without_its_generation(patch: pytest.MonkeyPatch) -> None:
    """A captured turn may name no generation; something else is kept in its place."""

    def move(good: Any, self: Any, identifier: Any, new: Any, **known: Any) -> Any:
        named = {"checkpoint_id": identifier} if new is TurnState.CAPTURED else {}
        return good(self, identifier, new, **(named | known))

    around(patch, Turns, "move", move)


@found_by("test_what_an_operation_is_about_never_changes")
def takes_another_retention_for_the_same(patch: pytest.MonkeyPatch) -> None:
    """What is kept of a removal may change under a known id."""
    about = tuple(name for name in operations_module._ABOUT if name != "retention")
    patch.setattr(operations_module, "_ABOUT", about)


@found_by("test_a_known_id_is_not_used_for_anything_else")
def takes_another_kind_for_the_same(patch: pytest.MonkeyPatch) -> None:
    """A known id may come again with another kind of operation."""
    forgets(patch, Operations, "kind")


@found_by("test_one_operation_of_a_workspace_is_under_way")
def does_not_see_a_pending_operation(patch: pytest.MonkeyPatch) -> None:
    """Only a running one is under way."""

    def unfinished_of_workspace(good: Any, self: Any, workspace: Any) -> Any:
        found = good(self, workspace)
        return found if found is None or self.get(found).state is OperationState.RUNNING else None

    around(patch, Operations, "unfinished_of_workspace", unfinished_of_workspace)


@found_by("test_the_story_has_every_change_of_the_state_and_every_boundary")
def tells_the_last_event_again(patch: pytest.MonkeyPatch) -> None:
    """Who reads on from a number gets that number once more."""
    around(patch, Operations, "story", lambda good, self, identifier, *, after=0: good(self, identifier, after=max(after - 1, 0)))


@found_by("test_no_operation_is_born_ended")
def begins_what_was_to_be_ended(patch: pytest.MonkeyPatch) -> None:
    """An unknown operation that is said to have ended begins to run."""

    def begin(good: Any, self: Any, *begun: Any, state: OperationState = OperationState.RUNNING) -> Any:
        return good(self, *begun, state=state if state in UNFINISHED else OperationState.RUNNING)

    around(patch, Operations, "begin", begin)


@found_by("test_an_ended_operation_keeps_its_result")
def accepts_another_result_in_silence(patch: pytest.MonkeyPatch) -> None:
    """An operation that is ended again in the same state is fine, whatever its result."""

    def end(good: Any, self: Any, identifier: Any, state: OperationState, result: str) -> Any:
        known = self.get(identifier)
        return known if known.state is state else good(self, identifier, state, result)

    around(patch, Operations, "end", end)


@found_by("test_a_result_cannot_carry_intent")
def keeps_any_result(patch: pytest.MonkeyPatch) -> None:
    """A result that is none is stored."""

    def end(good: Any, self: Any, identifier: Any, state: OperationState, result: str) -> Any:
        known = self.get(identifier)
        try:
            return good(self, identifier, state, result)
        except ValidationError:
            return known

    around(patch, Operations, "end", end)


@found_by("test_an_operation_has_six_arrows")
def succeeds_without_having_run(patch: pytest.MonkeyPatch) -> None:
    """The rules have an arrow from Pending to Succeeded."""
    edges = {**OPERATION._edges, OperationState.PENDING: OPERATION._edges[OperationState.PENDING] | {OperationState.SUCCEEDED}}
    patch.setattr(OPERATION, "_edges", edges)


@found_by("test_every_pair_of_an_operation")
def does_not_tell_of_a_cancellation(patch: pytest.MonkeyPatch) -> None:
    """A pending operation is cancelled without an event."""

    def end(good: Any, self: Any, identifier: Any, state: OperationState, result: str) -> Any:
        if (self.get(identifier).state, state) != (OperationState.PENDING, OperationState.CANCELLED):
            return good(self, identifier, state, result)
        self._move(identifier, OPERATION, state, {"result": result, "ended_at": self._context.now}, fenced=True)
        return self.get(identifier)

    around(patch, Operations, "end", end)


@found_by("test_an_id_becomes_one_other")
def leaves_out_what_an_id_became_too(patch: pytest.MonkeyPatch) -> None:
    """A changed mapping is ignored, and the rest of its request is kept."""

    def map_ids(good: Any, self: Any, mappings: Any) -> None:
        for mapping in mappings:
            with suppress(ConflictError):
                good(self, (mapping,))

    around(patch, Exports, "map_ids", map_ids)


@found_by("test_it_becomes_one_session_s_once_and_only_when_it_is_confirmed")
def takes_a_second_owner_for_the_first(patch: pytest.MonkeyPatch) -> None:
    """An export that became a room already may become it again."""

    def adopt(good: Any, self: Any, identifier: Any, **owner: Any) -> Any:
        known = self.get(identifier)
        return good(self, identifier, **owner) if known.session_id is None else known

    around(patch, Exports, "adopt", adopt)
