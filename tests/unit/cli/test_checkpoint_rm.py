"""``jam checkpoint rm``: the plan first, the removal only by its digest (WS-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.domain.retention import REMOVED_TOGETHER

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.guarantee("WS-9")


def test_the_plan_is_shown_and_its_digest_confirms(jam: Jam) -> None:
    """Without a digest nothing is asked for but the plan; the hint is the whole command; with it, the bytes go."""
    plan = jam("checkpoint", "rm", "0123abcd", "0123abce", "--json").json
    assert plan["evidence"]["bytes_freed"] == 8192
    shown = jam("checkpoint", "rm", "0123abcd", "0123abce")
    assert shown.status == Exit.OK
    assert "8192 bytes would be freed; 2048 stay" in shown.out
    assert f"jam checkpoint rm 0123abcd 0123abce --confirm {plan['digest']}" in shown.err
    done = jam("checkpoint", "rm", "0123abcd", "0123abce", "--confirm", plan["digest"])
    assert (done.status, done.out) == (Exit.OK, "2 removed, 8192 bytes freed\n")
    assert jam("checkpoint", "rm", "0123abcd", "0123abce", "--confirm", plan["digest"], "--json").json["bytes_freed"] == 8192


def test_what_stands_against_it_is_shown_and_another_plan_is_refused(jam: Jam) -> None:
    """One that has to stay is named with its reason, and no digest is offered; an old digest, or none at all, removes nothing."""
    shown = jam("checkpoint", "rm", "0123abcd", "bad-one")
    assert "corrupt: its pack is gone \\x1b[2J" in shown.out
    assert "--confirm" not in shown.err
    assert jam("checkpoint", "rm", "bad-one", "--json").json["digest"] == ""
    assert jam("checkpoint", "rm", "0123abcd", "--confirm", "a" * 64).status == Exit.REFUSED
    assert jam("checkpoint", "rm", "0123abcd", "--confirm", "yes").status == Exit.REFUSED
    assert jam("checkpoint", "rm").status == Exit.REFUSED
    assert jam("checkpoint", "rm", "0123abcd", "--room", "r").status == Exit.REFUSED


def test_all_that_may_go_of_a_room(jam: Jam) -> None:
    """The list says what keeps each; of a room, those go that nothing keeps, but for the newest and the young."""
    assert jam("room", "new", "codex", "--name", "many").status == Exit.OK
    rows = [line.split("\t") for line in jam("checkpoint", "ls", "many").out.splitlines()]
    assert [row[-1].split(" on ")[0] for row in rows] == ["newest", "", "payload removed"]
    plan = jam("checkpoint", "rm", "--room", "many", "--json").json
    assert len(plan["evidence"]["items"]) == 1
    assert f"jam checkpoint rm --room many --keep 1 --confirm {plan['digest']}" in jam("checkpoint", "rm", "--room", "many").err
    assert "Nothing may go" in jam("checkpoint", "rm", "--room", "many", "--keep", "2").err
    assert "Nothing may go" in jam("checkpoint", "rm", "--room", "many", "--older-than", "100000").err


def test_a_room_with_more_than_go_at_once_loses_its_oldest_first(jam: Jam) -> None:
    """What one removal can hold, and the rest is named; more that are named by hand are refused as a wrong argument."""
    assert jam("room", "new", "codex", "--name", "many-old").status == Exit.OK
    shown = jam("checkpoint", "rm", "--room", "many-old")
    assert (shown.status, len(shown.out.splitlines())) == (Exit.OK, REMOVED_TOGETHER + 1)
    assert f"These are the {REMOVED_TOGETHER} oldest; 5 more may go after them" in shown.err
    by_hand = jam("checkpoint", "rm", *("0123abcd" for _ in range(REMOVED_TOGETHER + 1)), "--json")
    assert (by_hand.status, by_hand.json["error"]["code"]) == (Exit.REFUSED, "input.invalid")


@pytest.mark.parametrize("words", [(), ("--confirm", "a" * 64)])
def test_nothing_that_may_go_is_a_document_too(jam: Jam, words: tuple[str, ...]) -> None:
    """A program is told that nothing goes, or went, in the form of what does."""
    name = f"few-{len(words)}"
    assert jam("room", "new", "codex", "--name", name).status == Exit.OK
    told = jam("checkpoint", "rm", "--room", name, "--json", *words)
    assert told.status == Exit.OK
    assert (told.json["checkpoints"] if words else told.json["evidence"]["items"]) == []


def test_what_chooses_among_a_rooms_checkpoints_needs_the_room(jam: Jam) -> None:
    """Nothing that was typed is passed over in silence, and an age that no calendar has is a wrong argument."""
    for words in (("--keep", "3"), ("--older-than", "30")):
        assert "input.invalid" in jam("checkpoint", "rm", "0123abcd", *words).err
    assert jam("checkpoint", "rm", "--room", "r", "--older-than", "99999999999999").status == Exit.USAGE


@pytest.mark.parametrize("ref", ["", "x" * 10_000])
def test_a_reference_that_nothing_can_have_is_a_wrong_one(jam: Jam, ref: str) -> None:
    """It is refused by the client: an empty one is another route, and a line of ten thousand characters is no request."""
    for words in (("checkpoint", "show", ref), ("checkpoint", "diff", "0123abcd", ref), ("continuity", "inspect", ref)):
        told = jam(*words, "--json")
        assert (told.status, told.json["error"]["code"]) == (Exit.REFUSED, "input.invalid")
