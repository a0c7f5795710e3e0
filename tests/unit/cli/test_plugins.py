"""``jam plugin``: which plugins there are, what is wrong with each, and which a person does not want (PLUG-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

pytestmark = pytest.mark.guarantee("PLUG-1")


def test_plugins_are_listed_with_every_violation_and_warning(jam: Jam) -> None:
    """A line for each; what is wrong and what to do beside it, escaped."""
    listed = jam("plugin", "ls")
    assert listed.status == Exit.OK
    assert "codex\tprovider\tloaded\tjam-codex 0.1.0\tjam_codex:Plugin\t1.0\n" in listed.out
    assert "newer\tengine\tincompatible\tjam-newer 9\tjam_newer:Engine\t9.0\n" in listed.out
    assert "unwanted\tprovider\tblocked\tjam-unwanted 3\tjam_unwanted:Plugin\t" in listed.out
    for line in (
        "broken: no module named x",
        "broken: lacks \\x1b[2J",
        "→ broken: Upgrade or uninstall the distribution jam-broken.",
        "newer: built for plugin interface 9.0, and this core has 1.0",
        "older: deprecated: jam_x: say y",
        "→ unwanted: To undo it: take unwanted out of the setting blocked_plugins",
    ):
        assert line in listed.err
    rows = {row["name"]: row for row in jam("plugin", "ls", "--json").json}
    assert rows["newer"]["problems"] == ["built for plugin interface 9.0, and this core has 1.0"]
    assert (rows["codex"]["built_for"], rows["codex"]["core"], rows["codex"]["requires"]) == ("1.0", "1.0", ">=0.1,<1")


def test_a_block_says_from_when_on_it_counts(jam: Jam) -> None:
    """Nothing is deleted and nothing stops: it counts from the next start, and that is what the command says."""
    done = jam("plugin", "block", "codex", "--why", "it is\x1b[2J noisy")
    assert done.out == "codex: blocked from the daemon's next start on, until then nothing changes: jam daemon restart\n"
    listed = jam("plugin", "ls")
    assert "codex\tprovider\tloaded, blocked at the next start\t" in listed.out
    assert "codex: blocked because: it is\\x1b[2J noisy" in listed.err
    assert jam("plugin", "unblock", "codex").out == "codex: unblocked\n"
    (view,) = jam("plugin", "block", "codex", "--json").json
    assert (view["at_next_start"], view["block"]["by"]) == ("blocked", "command")
    assert jam("plugin", "unblock", "codex", "--json").json[0]["block"] is None


def test_what_cannot_be_blocked_or_unblocked_is_refused(jam: Jam) -> None:
    """A name that nothing has, and one that the setting names."""
    unknown = jam("plugin", "block", "codexx", "--json")
    assert (unknown.status, unknown.json["error"]["code"]) == (Exit.REFUSED, "plugin.unknown")
    by_setting = jam("plugin", "unblock", "unwanted")
    assert by_setting.status == Exit.REFUSED
    assert "plugin.blocked_by_setting" in by_setting.err
    assert "JAM_BLOCKED_PLUGINS" in by_setting.err
