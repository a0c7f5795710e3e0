"""``jam export``: what was made, where it lies, and what a person has to know of it (WS-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.guarantee("WS-5"), pytest.mark.unprivileged]


@pytest.mark.guarantee("SEC-7", "SEC-3")
def test_a_new_export_is_shown_with_what_it_lost_and_what_to_look_at(jam: Jam, room: str) -> None:
    """Where it lies, how it is checked without Jam, what was left out, and what looks like a credential, escaped."""
    done = jam("export", "new", room, "--leave-out", "./build/", "--leave-out", "a b")
    assert done.status == Exit.OK
    assert "1 left out:\n  sock: a socket\n" in done.out
    assert "1 looks like a credential, and is in the export:\n  .env \\x1b[2J\n" in done.out
    (row,) = jam("export", "ls", room, "--json").json
    identifier = row["export"]["id"]
    assert identifier in done.out
    assert jam("export", "show", identifier).out == done.out
    path = jam("export", "show", identifier, "--json").json["path"]
    assert f"cd '{path}' && sha256sum -c SHA256SUMS" in done.err, "as it is typed: the path has a space"
    assert jam("export", "ls", room).out.split("\t")[:3] == [identifier[:13], room, "published"]


def test_a_damaged_export_has_a_status_of_its_own(jam: Jam, room: str) -> None:
    """Sound is 0; damaged is 1, with the first names, escaped, and what to do."""
    sound = jam("export", "new", room, "--json").json["export"]["id"]
    assert jam("export", "verify", sound).out == f"Export {sound} is sound: 3 files, 4.0 KiB\n"
    assert jam("room", "new", "codex", "--name", "bad-one").status == Exit.OK
    broken = jam("export", "new", "bad-one", "--json").json["export"]["id"]
    verdict = jam("export", "verify", broken)
    assert verdict.status == Exit.NOT_WELL
    assert verdict.out == f"Export {broken} is damaged, in 2 places:\n  workspace/\\x1b[2J: has other content\n"
    assert "jam export ls ROOM" in verdict.err


@pytest.mark.parametrize("path", ["", ".", "..", "/etc", "a/../b", "a//b"])
def test_only_paths_below_the_workspace_are_left_out(jam: Jam, room: str, path: str) -> None:
    """Anything else is refused before the daemon is asked."""
    assert jam("export", "new", room, "--leave-out", path).status == Exit.REFUSED


def test_an_empty_list_says_how_to_make_one(jam: Jam, room: str) -> None:
    """Nothing on standard output, which programs read; a note beside it."""
    done = jam("export", "ls", room)
    assert (done.status, done.out) == (Exit.OK, "")
    assert "jam export new ROOM" in done.err
