"""``jam checkpoint rm``: the plan first, the removal only by its digest (WS-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.removal import of_room, oldest
from jamcore.domain.requests import RoomRequest
from jamcore.domain.retention import REMOVED_TOGETHER, Blocker, CheckpointStanding
from jamcore.testing.fake_daemon.records import checkpoint, conversation_of

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.guarantee("WS-9")

LEFT = "Nothing is left to remove of what was named, and nothing was changed.\n"


def test_the_plan_is_shown_and_its_digest_confirms(jam: Jam) -> None:
    """Without a digest nothing is asked for but the plan; the hint is the whole command; with it, the bytes go."""
    plan = jam("checkpoint", "rm", "0123abcd", "0123abce", "--json").json
    assert plan["evidence"]["bytes_freed"] == 8192
    shown = jam("checkpoint", "rm", "0123abcd", "0123abce")
    assert shown.status == Exit.OK
    assert "8.0 KiB (8192 bytes) would be freed; 2.0 KiB (2048 bytes) stay" in shown.out
    assert "2.0 KiB (2048 bytes) that others need are copied first" in shown.out
    assert "FREES leaves the disk" in shown.err
    assert f"jam checkpoint rm 0123abcd 0123abce --confirm {plan['digest']}" in shown.err
    done = jam("checkpoint", "rm", "0123abcd", "0123abce", "--confirm", plan["digest"])
    assert (done.status, done.out) == (Exit.OK, "2 removed, 8.0 KiB (8192 bytes) freed\n")
    assert jam("checkpoint", "rm", "0123abcd", "0123abce", "--confirm", plan["digest"], "--json").json["bytes_freed"] == 8192


def test_what_stands_against_it_is_shown_and_another_plan_is_refused(jam: Jam) -> None:
    """One that has to stay is named with its reason, and no digest is offered: a refusal; an old digest, or none, removes nothing."""
    shown = jam("checkpoint", "rm", "0123abcd", "bad-one")
    assert shown.status == Exit.REFUSED
    assert "corrupt: its pack is gone \\x1b[2J" in shown.out
    assert "--confirm" not in shown.err
    assert "jam checkpoint rm 00000000-0000-0000-0000-000000000064\n" in shown.err, "the same without what has to stay"
    told = jam("checkpoint", "rm", "bad-one", "--json")
    assert (told.status, told.json["digest"]) == (Exit.REFUSED, "")
    assert jam("checkpoint", "rm", "0123abcd", "--confirm", "a" * 64).status == Exit.REFUSED
    assert jam("checkpoint", "rm", "0123abcd", "--confirm", "yes").status == Exit.REFUSED
    assert jam("checkpoint", "rm").status == Exit.REFUSED
    assert jam("checkpoint", "rm", "0123abcd", "--room", "r").status == Exit.REFUSED


def test_what_was_removed_already_is_no_refusal(jam: Jam) -> None:
    """Nothing changes, as with an exact retry, and it is said; beside one that is there it has to be left out."""
    assert jam("room", "new", "codex", "--name", "has-some").status == Exit.OK
    shown = jam("checkpoint", "rm", "gone-one")
    assert (shown.status, shown.err) == (Exit.OK, "reading what would go …\n" + LEFT)
    assert "removed: its payload was removed on 2026-01-02" in shown.out
    again = jam("checkpoint", "rm", "gone-one", "gone-two", "--confirm", "a" * 64)
    assert (again.status, again.out) == (Exit.OK, "0 removed, 0 bytes freed\n")
    assert "removed already; nothing was changed" in again.err
    assert jam("checkpoint", "rm", "gone-one", "--confirm", "a" * 64, "--json").json["checkpoints"] == []
    assert jam("checkpoint", "rm", "gone-one", "0123abcd").status == Exit.REFUSED
    assert jam("checkpoint", "rm", "gone-one", "0123abcd", "--confirm", "a" * 64).status == Exit.REFUSED


def test_all_that_may_go_of_a_room(jam: Jam) -> None:
    """The list says what keeps each; of a room, those go that nothing keeps, but for the newest and the young."""
    assert jam("room", "new", "codex", "--name", "many").status == Exit.OK
    rows = [line.split("\t") for line in jam("checkpoint", "ls", "many").out.splitlines()]
    assert [row[-1].split(" on ")[0] for row in rows] == ["newest", "", "payload removed"]
    plan = jam("checkpoint", "rm", "--room", "many", "--json").json
    assert len(plan["evidence"]["items"]) == 1
    for typed in ((), ("--keep", "1"), ("--older-than", "1")):
        words = ("checkpoint", "rm", "--room", "many", *typed)
        assert f"jam {' '.join(words)} --up-to 1 --confirm {plan['digest']}" in jam(*words).err, "what was typed, and where it ends"
    assert "Nothing may go" in jam("checkpoint", "rm", "--room", "many", "--up-to", "0").err
    assert "Nothing may go" in jam("checkpoint", "rm", "--room", "many", "--keep", "2").err
    assert "Nothing may go" in jam("checkpoint", "rm", "--room", "many", "--older-than", "100000").err


def test_the_command_that_was_shown_is_true_while_the_room_goes_on() -> None:
    """A checkpoint that was made meanwhile pushes another one out of the newest; what was chosen stays the same."""
    room = conversation_of(RoomRequest(id=UUID(int=1), name="r", provider="codex"))

    def standings(newest: int) -> list[CheckpointStanding]:
        rows = [checkpoint(room).model_copy(update={"id": UUID(int=n), "generation": n}) for n in range(newest, 0, -1)]
        return [
            CheckpointStanding(checkpoint=rows[0], kept_because=Blocker.NEWEST),
            *(CheckpointStanding(checkpoint=r) for r in rows[1:]),
        ]

    chosen, rest = oldest(standings(5), 2, None, None)
    assert ([each.generation for each in chosen], rest) == ([3, 2, 1], 0)
    assert of_room("r", 2, None, up_to=chosen[0].generation) == "--room r --keep 2 --up-to 3"
    assert oldest(standings(6), 2, None, None) != (chosen, rest)
    assert oldest(standings(6), 2, None, 3) == (chosen, rest)


def test_a_room_with_more_than_go_at_once_loses_its_oldest_first(jam: Jam) -> None:
    """What one removal can hold, and the rest is named; more that are named by hand are refused as a wrong argument."""
    assert jam("room", "new", "codex", "--name", "many-old").status == Exit.OK
    shown = jam("checkpoint", "rm", "--room", "many-old")
    assert (shown.status, len(shown.out.splitlines())) == (Exit.OK, REMOVED_TOGETHER + 2)
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
    for words in (("--keep", "3"), ("--older-than", "30"), ("--up-to", "3")):
        assert "input.invalid" in jam("checkpoint", "rm", "0123abcd", *words).err
    assert jam("checkpoint", "rm", "--room", "r", "--older-than", "99999999999999").status == Exit.USAGE


@pytest.mark.parametrize("ref", ["", "x" * 10_000])
def test_a_reference_that_nothing_can_have_is_a_wrong_one(jam: Jam, ref: str) -> None:
    """It is refused by the client: an empty one is another route, and a line of ten thousand characters is no request."""
    for words in (("checkpoint", "show", ref), ("checkpoint", "diff", "0123abcd", ref), ("continuity", "inspect", ref)):
        told = jam(*words, "--json")
        assert (told.status, told.json["error"]["code"]) == (Exit.REFUSED, "input.invalid")
