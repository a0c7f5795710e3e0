"""What looks like a secret is taken out of a text, and nothing else is."""

from __future__ import annotations

import pytest

from jamcore.domain.redaction import REDACTED, redacted

pytestmark = pytest.mark.unprivileged


@pytest.mark.guarantee("CTRL-3")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("OPENAI_API_KEY=abc123456 run", f"OPENAI_API_KEY={REDACTED} run"),
        ("API_TOKEN='a b' curl x", f"API_TOKEN={REDACTED} curl x"),
        ("mysql --password hunter2 db", f"mysql --password {REDACTED} db"),
        ("mysql --password=hunter2 db", f"mysql --password={REDACTED} db"),
        ("curl -H 'Authorization: Bearer abcdefghijk' x", f"curl -H 'Authorization: Bearer {REDACTED}' x"),
        ("echo sk-abcdefghijklmnopqrstuv", f"echo {REDACTED}"),
        ("git clone https://x:ghp_abcdefghijklmnopqrstuvwx@h/r", f"git clone https://x:{REDACTED}@h/r"),
    ],
)
def test_secrets_are_taken_out(text: str, shown: str) -> None:
    """By the form of the value, or by the name that it is given."""
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'token fix'",
        "AUTHOR=me make",
        "touch token.txt",
        "git push --force origin",
        "/bin/bash -lc 'touch f'",
        "a: b",
    ],
)
def test_ordinary_commands_stay_as_they_are(text: str) -> None:
    """A person decides on what is shown, so nothing is hidden without a reason."""
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "a=" * 50_000, "k='" * 30_000, "eyJ-" * 25_000, "--a " * 25_000, "token " * 20_000]
)
def test_a_hostile_text_takes_no_time(text: str) -> None:
    """Each of these made an unbounded pattern quadratic: a hang here is a failure by the test's own limit."""
    assert redacted(redacted(text)) == redacted(text)
