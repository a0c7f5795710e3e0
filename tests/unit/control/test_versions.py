"""Which of two releases is older."""

from __future__ import annotations

import pytest

from jamcore.control.versions import SOURCE, age

pytestmark = pytest.mark.unprivileged


@pytest.mark.parametrize(
    ("release", "beside", "expected"),
    [
        ("0.9.0", "0.10.0", -1),
        ("1.0.0rc1", "1.0.0", -1),
        ("1.0.0", "1.0.0.dev3", 1),
        ("0.1.0", "0.1.0", 0),
        ("1.0", "1.0.0", 0),
        (SOURCE, SOURCE, 0),
        (SOURCE, "0.1.0", None),
        ("0.1.0", SOURCE, None),
        ("nothing known", "0.1.0", None),
    ],
)
def test_the_age_of_a_release(release: str, beside: str, expected: int | None) -> None:
    """By numbers, not by letters; a pre-release is older; what was never installed has no age."""
    assert age(release, beside) == expected
