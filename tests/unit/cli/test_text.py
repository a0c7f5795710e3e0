"""Foreign text on a terminal (SEC-3)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.cli.text import safe, safe_line

pytestmark = pytest.mark.guarantee("SEC-3")

BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ANY = st.text(alphabet=st.characters(codec=None), max_size=200)


@given(ANY)
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    """No control character but newline and tab, no override of the direction, no lone surrogate; and it can be printed."""
    shown = safe(text)
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} and c not in "\n\t"]
    assert not BIDI & set(shown)
    shown.encode()


@given(ANY)
def test_one_line_is_one_line(text: str) -> None:
    """A table cell never has a line end, and never more than its limit."""
    line = safe_line(text, 20)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 20


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Sm", "So", "Mn"], exclude_characters=BIDI)))
def test_letters_of_every_script_stay(text: str) -> None:
    """Nothing is lost of what people write."""
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("gpj\u202eexe", "gpj\\u202eexe"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("\udc80", "\\udc80"),
        ("tab\tnew\n", "tab\tnew\n"),
        ("e\u0301 👩\u200d🚀", "e\u0301 👩\u200d🚀"),
    ],
)
def test_what_is_hidden_becomes_visible(text: str, shown: str) -> None:
    """Escaped, not dropped: a reviewer sees that it is there."""
    assert safe(text) == shown
