"""What every provider says in the same words: why a turn failed, and where an agent works."""

from __future__ import annotations

import re

import pytest

from jamcore.plugins.failures import TurnFailure, failure_of_status, failure_of_words
from jamcore.plugins.instructions import surroundings


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, TurnFailure.BAD_REQUEST),
        (401, TurnFailure.UNAUTHORISED),
        (402, TurnFailure.USAGE_LIMIT),
        (403, TurnFailure.UNAUTHORISED),
        (404, TurnFailure.NOT_FOUND),
        (413, TurnFailure.BAD_REQUEST),
        (418, TurnFailure.HTTP),
        (429, TurnFailure.RATE_LIMITED),
        (500, TurnFailure.SERVER_ERROR),
        (503, TurnFailure.SERVER_ERROR),
        (529, TurnFailure.OVERLOADED),
    ],
)
def test_a_status_means_the_same_for_every_provider(status: int, failure: TurnFailure) -> None:
    """A person sees one code for one cause."""
    assert failure_of_status(status) is failure


def test_sentences_are_looked_for_in_their_order() -> None:
    """The first that is found counts; words that nobody knows make the code vaguer, nothing else."""
    sentences = ((re.compile("cut"), TurnFailure.STREAM_CUT), (re.compile("silent"), TurnFailure.STREAM_SILENT))
    assert failure_of_words("it was silent, then cut", sentences) is TurnFailure.STREAM_CUT
    assert failure_of_words("it was silent", sentences) is TurnFailure.STREAM_SILENT
    assert failure_of_words("Es war still.", sentences) is TurnFailure.OTHER


def test_an_agent_is_told_whether_a_sandbox_is_around_it() -> None:
    """Without one it is told to keep to the workspace; what it has to read itself it is told by name."""
    assert "only network is the model endpoint" in surroundings(isolated=True)
    assert "No sandbox stands between you and this machine" in surroundings(isolated=False)
    assert "read NOTES.md at the root" in surroundings(isolated=True, unread="NOTES.md")
    assert "read" not in surroundings(isolated=True)
