"""``jam host cleanup``, ``jam host capacity``, ``jam export rm``: what a person is shown before and after anything goes (WS-7, WS-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.words import room_word

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.unprivileged


@pytest.mark.guarantee("WS-8", "WS-10", "SEC-3")
def test_a_clean_up_is_shown_item_by_item_and_then_done(jam: Jam, room: str) -> None:
    """What goes in bytes, what stays, what stands against it, escaped; then the command to type, which does it."""
    live = jam("host", "cleanup", room)
    assert live.status == Exit.REFUSED
    assert "stop it \\x1b[2J" in live.out
    assert "--confirm" not in live.err
    assert jam("stop", room).status == Exit.OK
    plan = jam("host", "cleanup", room, "--plan")
    assert plan.status == Exit.OK
    assert "guest disk\t4096\t3\truntime-hosts/" in plan.out
    assert "4.0 KiB (4096 bytes) would be freed" in plan.out
    assert "1 change requests, and all rows" in plan.out
    digest = jam("host", "cleanup", room, "--json").json["digest"]
    assert f"jam host cleanup {room} --confirm {digest}" in plan.err
    assert jam("host", "cleanup", room, "--confirm", "0" * 64).status == Exit.REFUSED
    assert jam("host", "cleanup", room, "--plan", "--confirm", digest).status == Exit.REFUSED
    done = jam("host", "cleanup", room, "--confirm", digest)
    assert (done.status, "4.0 KiB (4096 bytes) freed" in done.out, "1 exports stay, 2.0 KiB (2048 bytes)" in done.out) == (
        Exit.OK,
        True,
        True,
    )
    assert f"jam export ls {room}" in done.err


@pytest.mark.guarantee("OWN-9")
def test_work_in_a_clone_goes_with_a_word_of_its_own(jam: Jam, room: str) -> None:
    """The plan without it names the work and the word; the one with it names the command."""
    assert jam("room", "new", "codex", "--name", "worked-in").status == Exit.OK
    assert jam("stop", "worked-in").status == Exit.OK
    plan = jam("host", "cleanup", "worked-in")
    assert (plan.status, "mine.txt" in plan.out) == (Exit.REFUSED, True)
    assert "jam host cleanup worked-in --discard-work" in plan.err
    lossy = jam("host", "cleanup", "worked-in", "--discard-work", "--json")
    assert lossy.status == Exit.OK
    assert jam("host", "cleanup", "worked-in", "--confirm", lossy.json["digest"]).status == Exit.REFUSED
    assert jam("host", "cleanup", "worked-in", "--confirm", lossy.json["digest"], "--discard-work").status == Exit.OK


@pytest.mark.guarantee("REAP-3")
def test_capacity_is_figures_and_advice(jam: Jam, room: str) -> None:
    """Sums, lower bounds marked, what is old with the command that would remove it, and that nothing goes by itself."""
    shown = jam("host", "capacity")
    assert shown.status == Exit.OK
    assert "4096+" in shown.out
    hosts = jam("host", "capacity", "--json").json["hosts"]
    assert f"{len(hosts)} hosts take at least {12 * len(hosts)}.0 KiB; 1 exports 2.0 KiB" in shown.out
    assert "old \\x1b[2J, 31 days" in shown.err
    assert f"jam checkpoint rm --room {room} --older-than 30" in shown.err
    assert "Jam removes nothing by itself" in shown.err
    assert jam("host", "capacity", "--json").json["free_bytes"] == 1 << 30


@pytest.mark.guarantee("WS-7", "WS-10")
def test_the_last_export_is_deleted_with_a_word_of_its_own(jam: Jam, room: str) -> None:
    """The loss is shown in capitals, and the command names the word; without it nothing goes."""
    export = jam("export", "new", room, "--json").json["export"]["id"]
    plan = jam("export", "rm", export)
    assert "frees\t8.0 KiB (8192 bytes)\n" in plan.out
    assert (plan.status, "THEY ARE LOST WITH IT" in plan.out) == (Exit.OK, True)
    digest = jam("export", "rm", export, "--json").json["digest"]
    assert f"jam export rm {export} --confirm {digest} --lose-workspace" in plan.err
    refused = jam("export", "rm", export, "--confirm", digest)
    assert (refused.status, "export.last_of_workspace" in refused.err) == (Exit.REFUSED, True)
    done = jam("export", "rm", export, "--confirm", digest, "--lose-workspace")
    assert (done.status, done.out) == (Exit.OK, f"Export {export}: deleted, 8.0 KiB (8192 bytes) freed\n")


@pytest.mark.guarantee("WS-8")
def test_a_room_whose_host_was_removed_says_so_before_all_else() -> None:
    """Also where its files are archived, which they are then."""
    assert room_word(busy=False, live=False, workspace="archived", host="removed") == "removed"
    assert room_word(busy=False, live=False, workspace="archived", host="parked") == "archived"
