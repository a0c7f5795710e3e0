"""``jam workspace archive`` and ``restore``: the plan first, the archive only by its digest (WS-4, WS-10, WS-16)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.guarantee("WS-4", "WS-10"), pytest.mark.unprivileged]


def parked(jam: Jam, name: str) -> str:
    assert jam("room", "new", "codex", "--name", name).status == Exit.OK
    assert jam("stop", name).status == Exit.OK
    return name


def test_the_plan_says_what_goes_and_what_stays_and_its_digest_confirms(jam: Jam) -> None:
    """Bytes of both, the whole command to type, and nothing else than what was confirmed."""
    room = parked(jam, "plain")
    older = jam("export", "new", room, "--json").json["export"]["id"]
    plan = jam("workspace", "archive", room, "--retention", "keep-latest", "--json").json
    shown = jam("workspace", "archive", room, "--retention", "keep-latest")
    assert shown.status == Exit.OK
    assert "the room's files: 3 files, 4.0 KiB (4096 bytes)\n" in shown.out
    assert f"the older export {older[:13]}: 4.0 KiB (4096 bytes)" in shown.out
    assert f"jam workspace archive {room} --retention keep-latest --confirm {plan['digest']}" in shown.err
    kept = jam("workspace", "archive", room)
    assert f"  the export {older[:13]}: 4.0 KiB (4096 bytes)\n" in kept.out.partition("Stays:")[2]
    assert jam("workspace", "archive", room, "--confirm", plan["digest"]).status == Exit.REFUSED, "it was for keep-latest"
    done = jam("workspace", "archive", room, "--retention", "keep-latest", "--confirm", plan["digest"])
    assert done.status == Exit.OK
    assert "Archived: 3 files, 4.0 KiB (4096 bytes), are in export" in done.out
    assert "1 older exports were removed, 4.0 KiB (4096 bytes)" in done.out
    assert f"jam workspace restore {room}" in done.err


def test_an_archived_room_says_so_and_comes_back(jam: Jam) -> None:
    """In the list, in its own page, and in the refusal, each with what to type; then the files are back."""
    room = parked(jam, "gone")
    digest = jam("workspace", "archive", room, "--json").json["digest"]
    assert jam("workspace", "archive", room, "--confirm", digest, "--json").json["room"] == room
    row = next(line for line in jam("ls").out.splitlines() if line.startswith(f"{room}\t"))
    assert row.split("\t")[4] == "archived"
    shown = jam("room", "show", room)
    assert "state\tarchived" in shown.out
    assert f"jam workspace restore {room}" in shown.err
    refused = jam("workspace", "archive", room)
    assert (refused.status, f"jam workspace restore {room}" in refused.err) == (Exit.REFUSED, True)
    assert jam("workspace", "restore", room, "--export", "ffffffff").status == Exit.REFUSED
    back = jam("workspace", "restore", room)
    assert back.status == Exit.OK
    assert back.out.startswith("Back: 3 files, 4.0 KiB (4096 bytes), from export ")
    assert back.out.splitlines()[1] == "The conversation comes back from generation 2, which is still there"
    assert f"jam room resume {room}" in back.err
    assert jam("workspace", "restore", room).status == Exit.REFUSED


@pytest.mark.guarantee("WS-16", "SEC-3")
def test_each_blocker_is_overridden_by_its_name(jam: Jam) -> None:
    """What was found is shown escaped; the command that overrides it is whole; without it nothing is confirmed."""
    room = parked(jam, "work here")
    shown = jam("workspace", "archive", room)
    assert shown.status == Exit.REFUSED
    assert "unpushed\tmy repo\t2 commits \\x1b[2J\tagainst it" in shown.out
    assert "--confirm" not in shown.err
    command = next(line for line in shown.err.splitlines() if "jam workspace" in line).partition(": ")[2]
    assert shlex.split(command) == ["jam", "workspace", "archive", room, "--override", "unpushed:my repo"]
    told = jam(*shlex.split(command)[1:])
    assert (told.status, "overridden" in told.out) == (Exit.OK, True)
    digest = jam(*shlex.split(command)[1:], "--json").json["digest"]
    assert jam("workspace", "archive", room, "--confirm", digest).status == Exit.REFUSED
    assert jam(*shlex.split(command)[1:], "--confirm", digest).status == Exit.OK


def test_what_has_to_end_first_is_said(jam: Jam) -> None:
    """A live room is to be stopped; what no export can hold is named, and may be left out."""
    assert jam("room", "new", "codex", "--name", "alive").status == Exit.OK
    shown = jam("workspace", "archive", "alive")
    assert (shown.status, "jam stop alive" in shown.err) == (Exit.REFUSED, True)
    room = parked(jam, "deep")
    shown = jam("workspace", "archive", room)
    assert (shown.status, "cannot be exported: deep: it is too deep" in shown.out) == (Exit.REFUSED, True)
    left = jam("workspace", "archive", room, "--leave-out", "deep")
    assert (left.status, "for good, and in no export: deep" in left.out) == (Exit.OK, True)
    assert "--leave-out deep --confirm" in left.err


@pytest.mark.guarantee("WS-13", "SEC-3")
def test_what_no_export_holds_is_told_before_it_is_confirmed(jam: Jam) -> None:
    """Sockets and FIFOs by their paths, escaped, the first of many; the plan is confirmed all the same."""
    shown = jam("workspace", "archive", parked(jam, "piped"))
    assert shown.status == Exit.OK
    assert "  for good, and in no export: pipe 0 \\x1b[2J: a FIFO\n" in shown.out
    assert "pipe 19" in shown.out
    assert "pipe 20" not in shown.out
    assert "  for good, and in no export: 1 more sockets and FIFOs\n" in shown.out


@pytest.mark.parametrize(
    "words", [("--override", "unpushed"), ("--override", "nonsense:a"), ("--confirm", "yes"), ("--leave-out", "..")]
)
def test_what_cannot_be_meant_is_refused(jam: Jam, room: str, words: tuple[str, str]) -> None:
    """Before the daemon is asked."""
    assert jam("workspace", "archive", room, *words).status == Exit.REFUSED
