"""The engine suite as a table: every topic has a check, every test is one, and each says what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.testing.engines import EngineSuite, Topic, checks_of
from jamcore.testing.engines.__main__ import PAGE, render
from jamcore.testing.engines.checks import check

pytestmark = pytest.mark.guarantee("ENG-5")

ROOT = Path(__file__).parents[3]


class Unprotected(BubblewrapEnginePlugin):
    """An engine that claims next to nothing."""

    name = "unprotected"
    isolation = Isolation.NONE
    abilities = frozenset({Ability.HOST_VIEW})


def test_every_topic_has_a_check_and_every_test_is_one() -> None:
    """The topics are what goes wrong in real engines; none is only a heading."""
    found = checks_of(EngineSuite)
    assert {one.topic for one in found} == set(Topic)
    assert len({one.name for one in found}) == len(found)
    assert all(one.rule.endswith(".") and one.why.endswith(".") for one in found), [one.name for one in found]


def test_what_an_engine_does_not_claim_is_named_with_the_reason() -> None:
    """An absent ability and a weaker isolation class are two reasons; what needs neither is asked of everybody."""
    by_name = {one.name: one.not_claimed(Unprotected) for one in checks_of(EngineSuite)}
    assert by_name["an-exit-code-arrives"] is None
    assert by_name["guest-files-are-found-on-the-host"] is None
    assert by_name["a-frozen-sandbox-can-be-stopped"] == "unprotected does not have the ability freeze"
    assert by_name["process-one-ignores-what-guests-send-it"] == (
        "it is promised from the isolation class namespace on, unprotected is of the class none"
    )
    assert all(one.not_claimed(BubblewrapEnginePlugin) is None for one in checks_of(EngineSuite))


def test_a_check_without_a_rule_is_refused() -> None:
    """Nobody can add a check that does not say what it holds."""
    with pytest.raises(TypeError, match="rule"):

        @check(Topic.BYTES, "Why.")
        async def test_nothing() -> None: ...

    class Suite:
        async def test_bare(self) -> None: ...

    with pytest.raises(TypeError, match="is no check"):
        checks_of(Suite)


def test_the_page_is_up_to_date() -> None:
    """docs/engine-suite.md is what the suite says; `make guarantees` makes it anew."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render()
