"""Which names may enter a guest's environment, over every spelling of the ones that never may (ENV-2)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jamcore.domain.environment import CUSTODY_NAMES, PROXY_SENTINELS, environment_problems, is_custody_name

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("ENV-2")]

LETTERS = "ABCXYZabcxyz0189_"
FIXES = st.text(LETTERS, max_size=12)
VALUES = st.one_of(st.sampled_from(sorted(PROXY_SENTINELS)), st.text(max_size=8))
VALUE = "sk-worth-a-lot-4711"


@st.composite
def custody_names(draw: st.DrawFn) -> str:
    """Draw a name under custody: as it is, with ``*_`` before it and ``_*`` after it, each letter in either case."""
    name = draw(st.sampled_from(CUSTODY_NAMES))
    if draw(st.booleans()):
        name = f"{draw(FIXES)}_{name}"
    if draw(st.booleans()):
        name = f"{name}_{draw(FIXES)}"
    upper = draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    return "".join(letter.upper() if up else letter.lower() for letter, up in zip(name, upper, strict=True))


@given(custody_names(), VALUES)
@example("BAND_AGENT_KEY", "proxy-managed")
@example("band_user_key", "")
@example("MY_BAND_AGENT_KEY", "x")
@example("Band_User_Key_2", "x")
@example("_BAND_AGENT_KEY_", "x")
@example("X_band_AGENT_key_Y", "oai-oat01-proxy-managed")
def test_names_under_custody_are_refused_always(name: str, value: str) -> None:
    """In every case and with every prefix and suffix, whatever the value, a sentinel too; the refusal names the variable."""
    problems = [problem for problem in environment_problems(((name, value),)) if "room transport" in problem]
    assert problems == [f"{name[:64]!r}: belongs to the room transport and never enters a guest"]


@given(FIXES, FIXES, st.sampled_from(CUSTODY_NAMES))
def test_the_rule_is_about_whole_words(before: str, after: str, custody: str) -> None:
    """A name that only holds the letters is no name under custody, and is judged by the rules for all others."""
    name = f"{before}{custody}{after}"
    parts = (before == "" or before.endswith("_"), after == "" or after.startswith("_"))
    assert is_custody_name(name) is all(parts)


@pytest.mark.parametrize("custody", CUSTODY_NAMES)
def test_letters_that_fold_to_the_same_are_the_same(custody: str) -> None:
    """A Kelvin sign is a k to whoever folds case: it does not lead past the rule, nor past the one for plain names."""
    name = custody.replace("k", "\u212a")
    problems = environment_problems(((name, "x"),))
    assert len([problem for problem in problems if "room transport" in problem]) == 1
    assert any("not a plain variable name" in problem for problem in problems)


@given(st.sampled_from(["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "MY_SECRET", "X_CREDENTIALS", "NPM_AUTH"]), FIXES)
def test_a_secret_like_name_enters_only_with_a_sentinel(name: str, prefix: str) -> None:
    """The sentinel is worth nothing; any other value, one that only contains a sentinel too, is refused without being repeated."""
    name = f"A{prefix}_{name}"
    for sentinel in PROXY_SENTINELS:
        assert environment_problems(((name, sentinel),)) == ()
        assert environment_problems(((name, f"{sentinel} {VALUE}"),))
    (problem,) = environment_problems(((name, VALUE),))
    assert name[:64] in problem
    assert VALUE not in problem
