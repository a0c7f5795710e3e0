"""``jam host override``: the evidence first, the removal only by its digest (OWN-8, WS-10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam


@pytest.fixture
def lost(jam: Jam) -> Callable[[str], str]:
    """Make a room that is parked, and return its name: the fake daemon says of such a one that its proof is gone."""

    def make(name: str) -> str:
        assert jam("room", "new", "codex", "--name", name).status == Exit.OK
        assert jam("room", "stop", name).status == Exit.OK
        return name

    return make


@pytest.mark.guarantee("OWN-8", "WS-10")
def test_the_evidence_is_shown_and_its_digest_confirms(jam: Jam, lost: Callable[[str], str]) -> None:
    """Without a digest nothing is asked for but the evidence; the hint is the whole command; with it, the sandbox goes."""
    room = lost("lost-proof")
    view = jam("host", "override", room, "--json").json
    assert (view["rooms"], view["needed"], view["evidence"]["nonce"]) == ([room], True, "missing")
    shown = jam("host", "override", room)
    assert shown.status == Exit.OK
    assert view["evidence"]["sandbox"] in shown.out
    assert "missing" in shown.out
    assert f"jam host override {room} --confirm {view['digest']}" in shown.err
    done = jam("host", "override", room, "--confirm", view["digest"])
    assert (done.status, done.out) == (Exit.OK, f"{view['evidence']['sandbox']}: removed; its files stay\n")
    assert f"jam room resume {room}\n" in done.err
    assert jam("host", "override", room, "--confirm", view["digest"], "--json").json["confirmed"] == view["digest"]


@pytest.mark.guarantee("OWN-9", "WS-10")
def test_work_that_would_be_lost_is_shown_and_needs_a_word_of_its_own(jam: Jam) -> None:
    """The hint is the whole command, with the word; without the word the removal is refused and says what is there."""
    assert jam("room", "new", "codex", "--name", "worked-in").status == Exit.OK
    assert jam("room", "stop", "worked-in").status == Exit.OK
    digest = jam("host", "override", "worked-in", "--json").json["digest"]
    shown = jam("host", "override", "worked-in")
    assert "goes with the sandbox" in shown.out
    assert "1 uncommitted: mine.txt" in shown.out
    assert f"jam host override worked-in --confirm {digest} --discard-work" in shown.err
    refused = jam("host", "override", "worked-in", "--confirm", digest, "--json")
    assert refused.status == Exit.REFUSED
    assert refused.json["error"]["code"] == "workspace.work_would_be_lost"
    assert "mine.txt" in refused.json["error"]["context"]["lost"]
    done = jam("host", "override", "worked-in", "--confirm", digest, "--discard-work")
    assert done.status == Exit.OK
    assert "files stay" not in done.out


@pytest.mark.guarantee("OWN-8")
def test_a_proof_that_holds_has_no_command_to_copy(jam: Jam) -> None:
    """It says that there is nothing to override."""
    assert jam("room", "new", "codex", "--name", "whole").status == Exit.OK
    shown = jam("host", "override", "whole")
    assert shown.status == Exit.OK
    assert "--confirm" not in shown.err
    assert "nothing to override" in shown.err


def test_what_is_no_digest_is_refused(jam: Jam, lost: Callable[[str], str]) -> None:
    """By the interface's own type, without a traceback; an unknown name by type too."""
    room = lost("no-digest")
    for digest in ("yes", "", "g" * 64, "a" * 63):
        said = jam("host", "override", room, "--confirm", digest, "--json")
        assert said.status == Exit.REFUSED, digest
        assert said.json["error"]["code"].startswith("input."), digest
    assert jam("host", "override", "nobody", "--json").json["error"]["code"] == "input.not_found"
