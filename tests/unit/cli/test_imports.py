"""``jam export import``, ``confirm`` and ``restore``: what somebody else says is shown as that, and nothing is used unconfirmed (WS-6)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = [pytest.mark.guarantee("WS-6"), pytest.mark.unprivileged]


@pytest.mark.guarantee("SEC-7", "SEC-3", "CONT-1")
def test_taken_in_confirmed_and_made_a_room(jam: Jam, tmp_path: Path) -> None:
    """Each command ends with the next one to type; what the export says of itself is escaped, and said to be its own word."""
    taken = jam("export", "import", str(tmp_path / "their export"))
    assert taken.status == Exit.OK
    assert "state\tquarantined" in taken.out
    assert "room their room\\x1b[2J, agent codex\\x1b[2J" in taken.out
    assert "1 looks like a credential:\n  .env \\x1b[2J: an API key\n" in taken.out
    assert "Who made it, nothing proves" in taken.err
    typed = taken.err[taken.err.index("jam export confirm") :].split()
    export, digest = typed[3], typed[5]
    assert jam("export", "confirm", export).out == taken.out
    early = jam("export", "restore", export)
    assert (early.status, "export.quarantined" in early.err) == (Exit.REFUSED, True)
    assert jam("export", "confirm", export, "--confirm", "0" * 64).status == Exit.REFUSED
    assert jam("export", "confirm", export, "--confirm", "no digest").status == Exit.REFUSED
    done = jam("export", "confirm", export, "--confirm", f" {digest.upper()}")
    assert (done.status, "state\tpublished" in done.out) == (Exit.OK, True)
    assert f"jam export restore {export} --without-conversation" in done.err
    made = jam("export", "restore", export, "--name", "a room", "--without-conversation")
    assert (made.status, "jam room resume 'a room'" in made.err) == (Exit.OK, True)


@pytest.mark.guarantee("CONT-1")
def test_a_program_that_is_needed_is_said_with_what_installs_it(jam: Jam, tmp_path: Path) -> None:
    """Nobody reads that a conversation can go on and is refused by a resume for want of its program."""
    taken = jam("export", "import", str(tmp_path / "programless"))
    assert "can go on here exactly, once there is version 1 of codex's program\n" in taken.out
    assert "The agent's program is not installed: jam provider install codex\n" in taken.err


def test_json_is_the_record(jam: Jam, tmp_path: Path) -> None:
    """With the digest that confirms it; a relative path is the person's own directory's."""
    view = jam("export", "import", str(tmp_path / "lost"), "--json").json
    assert view["evidence"]["conversation"]["problem"] == "the plugin of codex is not installed here"
    assert view["evidence"]["provider_installed"] is False
    export = view["export"]["id"]
    assert jam("export", "confirm", export, "--json").json == view
    done = jam("export", "confirm", export, "--confirm", view["digest"], "--json").json
    assert done["export"]["state"] == "published"
    room = jam("export", "restore", export, "--without-conversation", "--json").json
    assert room["room"]["id"]
