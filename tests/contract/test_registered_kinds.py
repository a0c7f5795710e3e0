"""Every journaled kind of a whole daemon says what it is, and its page is made from that (START-6, WS-10)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import pytest

from jamcore.daemon.startup import ORDER
from jamcore.domain.operations import OPERATION
from jamcore.journal.replay import ActionRegistry
from jamcore.testing.operations_page import PAGE, registered, render

pytestmark = [pytest.mark.guarantee("START-6"), pytest.mark.unprivileged]


@pytest.fixture(scope="module")
def actions() -> ActionRegistry:
    """The kinds of a whole daemon."""
    return anyio.run(registered)


def test_the_page_is_up_to_date(root: Path, actions: ActionRegistry) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(actions)


def test_every_kind_declares_all_that_is_asked_for(actions: ActionRegistry) -> None:
    """Title, evidence, a step of the start that there is, a restart rule for each step, and where it begins in the one table."""
    assert {"provision", "reconcile", "export", "archive", "restore", "recover"} <= set(actions.kinds())
    for kind in actions.kinds():
        action, declared = actions.action(kind), actions.declared(kind)
        assert declared is not None
        assert declared.problem(action.record) == "", kind
        assert declared.replay in ORDER, kind
        assert not OPERATION.is_terminal(action.first_state)


@pytest.mark.guarantee("WS-10")
def test_no_confirmation_fits_two_kinds(actions: ActionRegistry) -> None:
    """Each digest is of evidence with a field whose value no other kind's evidence has."""
    declared = [found for kind in actions.kinds() if (found := actions.declared(kind))]
    seals = [each.seal for each in declared if each.confirms is not None]
    assert None not in seals
    assert len(seals) >= 5
    assert [seal for seal, count in Counter(seals).items() if count > 1] == []


@pytest.mark.guarantee("START-1", "START-2")
def test_a_kind_goes_on_in_the_step_that_it_declares(actions: ActionRegistry) -> None:
    """Those that have a step of their own are named by it, and by no other."""
    own = {
        kind: found.replay
        for kind in actions.kinds()
        if (found := actions.declared(kind)) and found.replay != "workspace reconciliation"
    }
    assert own == {
        "continuity-reset": "continuity resets",
        "host-cleanup": "host clean-ups",
        "payload-deletion": "checkpoint payload deletions",
    }
