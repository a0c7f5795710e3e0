"""What the simulator does is written down, each with its source or as a guess, and the page is made from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jamcore.testing.sbx.behaviours import Gates, everything, table
from jamcore.testing.sbx.bugs import BUGS, FAULTS
from jamcore.testing.sbx.known import VERSIONS, guess, minor
from jamcore.testing.sbx.page import PAGE, render
from jamcore.testing.sources import core_sources, workspace_root

ROOT = workspace_root(Path(__file__).resolve().parent)
TAGS = re.compile(r"(D|M|G|RN|SDK|DEN|LOOP|CEZ|FM|DA|BAT|API|KT|MC|DCA|CAP|SKL|HURA|SBXM|MIS|ISS( #\d+)?)")
SOURCES = {
    source.name: source.path.read_text() for source in core_sources(ROOT) if source.module.startswith("jamcore.testing.sbx.")
}


def test_the_page_is_up_to_date() -> None:
    """Made again it is the same: `make guarantees`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == render()


def test_every_behaviour_is_a_fact_with_sources_or_a_guess_with_what_to_look_at() -> None:
    """None is both, and every source is a tag of the facts sheet."""
    for each in everything():
        assert bool(each.sources) != bool(each.look), each.ident
        assert all(TAGS.fullmatch(tag) for tag in each.sources), each
        assert each.text.endswith((".", "`")), each.ident


def test_whatever_depends_on_a_version_asks_the_one_table() -> None:
    """Each id in the code is in the table, and no number of a version is compared anywhere else."""
    known = {each.ident for each in everything()}
    asked = {ident for text in SOURCES.values() for ident in re.findall(r'gates\("([^"]+)"\)', text)}
    flags = {
        ident for text in SOURCES.values() for ident in re.findall(r'(?:gate=|"(?:bool|list|text)", )"([a-z]+\.[a-z0-9-]+)"', text)
    }
    assert asked
    assert flags
    assert (asked | flags) - known == set()
    assert [name for name, text in SOURCES.items() if "minor(" in text and not name.endswith("known.py")] == []


def test_every_switch_and_every_fault_does_something() -> None:
    """Each is asked for in the code that behaves."""
    code = "".join(text for name, text in SOURCES.items() if not name.endswith(("bugs.py", "page.py")))
    assert [bug for bug in BUGS if f'bug("{bug}")' not in code] == []
    assert [kind for kind in FAULTS if f'"{kind}"' not in code] == []


def test_a_version_knows_what_holds_in_it() -> None:
    """From the first to the last, and an id that nobody knows is an error."""
    holds = {version: Gates(version)("mcp.group") for version in VERSIONS}
    assert holds == {"0.35": False, "0.39": True, "0.43": True, "0.47": True}
    assert [version for version in VERSIONS if Gates(version)("errors.upper-case")] == ["0.35", "0.39", "0.43"]
    with pytest.raises(KeyError):
        Gates("0.47")("nonsense")
    with pytest.raises(ValueError, match="known are"):
        Gates("0.36")


def test_two_behaviours_of_one_name_are_refused() -> None:
    """So that a gate says one thing."""
    one = guess("x", "It is.", "look")
    with pytest.raises(ValueError, match="two behaviours are called x"):
        table((one, one))


def test_the_simulator_imports_no_driver() -> None:
    """It is written apart: of the engines it uses how this machine's bubblewrap is found, and nothing else."""
    imported = {name for text in SOURCES.values() for name in re.findall(r"^\s*(?:from|import) (jamcore\.\S+)", text, re.MULTILINE)}
    outside = {name for name in imported if not name.startswith(("jamcore.testing.", "jamcore.engines.bubblewrap"))}
    assert outside == set()
    assert minor("0.43") == 43
