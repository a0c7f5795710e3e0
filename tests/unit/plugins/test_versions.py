"""Which version may resume what another wrote: the same, what was measured, an older patch where that is said; never a guess."""

from __future__ import annotations

import pytest

from jamcore.plugins.versions import may_resume

pytestmark = pytest.mark.guarantee("CONT-7")

PINNED = "1.18.33"


@pytest.mark.parametrize(
    ("captured", "current", "accepted"),
    [
        (PINNED, PINNED, True),
        ("1.18.30", PINNED, True),
        (PINNED, "1.18.40", True),
        ("1.18.34", PINNED, False),
        ("1.17.33", PINNED, False),
        ("1.19.0", PINNED, False),
        ("2.18.33", PINNED, False),
        ("1.18.33-beta.1", PINNED, False),
        ("1.18.33-beta.1", "1.18.33-beta.1", True),
        ("1.18", "1.18.1", False),
        ("1.18." + "9" * 5_000, PINNED, False),
        ("", PINNED, False),
        ("", "", False),
        ("nonsense", PINNED, False),
    ],
)
def test_an_older_patch_of_the_same_release(captured: str, current: str, *, accepted: bool) -> None:
    """A newer writer is never read by an older program, and what is no version is only itself."""
    assert may_resume(captured, current, pinned=PINNED, patches=True) is accepted
    assert may_resume(captured, current, pinned=PINNED) is (accepted and captured == current)


def test_a_measurement_holds_for_the_pinned_program_alone() -> None:
    """Another program than the one it was made with may do anything."""
    assert may_resume("1.2.0", PINNED, pinned=PINNED, seen={"1.2.0"})
    assert not may_resume("1.2.0", "1.18.40", pinned=PINNED, seen={"1.2.0"}, patches=True)
    assert not may_resume("1.2.0", "", pinned="", seen={"1.2.0"})
