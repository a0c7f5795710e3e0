"""The generator of the page of guarantees reads marks wherever pytest accepts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.testing.guarantees import Guarantee, Proof, find_proofs, load, main, render, unknown_ids

TESTS = '''
import pytest
pytestmark = [pytest.mark.slow, pytest.mark.guarantee("CAP-3")]

@pytest.mark.guarantee("CAP-1", "CAP-2")
async def test_a():
    """It is so.

    More.
    """

@pytest.mark.guarantee("PLAN-1")
class TestB:
    @pytest.mark.guarantee("PLAN-2")
    def test_c(self): ...
    def helper(self): ...
'''
SOURCE = """
[families]
CAP = "Cells"
[guarantees]
CAP-1 = "One."
CAP-9 = "Nine."
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for directory in ("jamcore/testing/suites", "plugins/p/tests", "docs"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "plugins/p/tests/test_x.py").write_text(TESTS)
    (tmp_path / "jamcore/testing/suites/cells.py").write_text("class S:\n    @mark.guarantee('CAP-1')\n    def test_s(self): ...\n")
    (tmp_path / "docs/guarantees-source.toml").write_text(SOURCE)
    return tmp_path


def test_marks_are_found_on_functions_classes_and_modules(workspace: Path) -> None:
    """Marks of a module and a class reach the tests inside, and published suites count."""
    test = "plugins/p/tests/test_x.py::"
    assert find_proofs(workspace) == (
        Proof("CAP-1", "jamcore/testing/suites/cells.py::S::test_s", ""),
        Proof("CAP-1", f"{test}test_a", "It is so."),
        Proof("CAP-2", f"{test}test_a", "It is so."),
        Proof("CAP-3", f"{test}TestB::test_c", ""),
        Proof("CAP-3", f"{test}test_a", "It is so."),
        Proof("PLAN-1", f"{test}TestB::test_c", ""),
        Proof("PLAN-2", f"{test}TestB::test_c", ""),
    )


def test_the_page_says_what_is_not_proven() -> None:
    """A guarantee without a test reads as not yet proven."""
    page = render([Guarantee("CAP-9", "Cells", "Nine.")], [])
    assert "0 of 1 carry" in page
    assert page.endswith("\n## Cells\n\n**CAP-9** Nine.\n- not yet proven\n")


def test_unknown_ids_are_named(workspace: Path) -> None:
    """Marks whose id the source lacks are reported, not dropped."""
    unknown = unknown_ids(load(workspace / "docs/guarantees-source.toml"), find_proofs(workspace))
    assert {proof.guarantee for proof in unknown} == {"CAP-2", "CAP-3", "PLAN-1", "PLAN-2"}


def test_check_changes_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--check`` fails on an old page, and passes once the page was made."""
    with monkeypatch.context() as patch:
        patch.chdir(workspace)
        assert main(["--check"]) == 1
        assert not (workspace / "docs/guarantees.md").exists()
        assert main([]) == 0
        assert main(["--check"]) == 0
