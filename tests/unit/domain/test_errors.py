"""Errors as exceptions and as data: what Python's own machinery does with them, and what may leave the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from jamcore.domain.errors import (
    CONTEXT_LIMIT,
    ConflictError,
    FaultError,
    IllegalTransitionError,
    InvalidInputError,
    JamError,
    NotFoundError,
    RefusalError,
    bounded,
)

EXAMPLES: tuple[JamError, ...] = (
    InvalidInputError(field="f", problem="p"),
    NotFoundError(kind="room", ref="r"),
    ConflictError(kind="room", ref="r", problem="p"),
    IllegalTransitionError(machine="turn", ref="r", old="a", new="b"),
)


@contextmanager
def passing() -> Iterator[None]:
    """A context manager that an error passes through."""
    yield


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: error.code)
def test_an_error_survives_the_standard_machinery(error: JamError) -> None:
    """Through a context manager it arrives as itself, takes a note, and keeps its cause."""
    cause = OSError(5, "io")
    with pytest.raises(type(error)) as caught, passing():
        raise error from cause
    caught.value.add_note("a note")
    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__notes__ == ["a note"]


def test_two_equal_errors_are_two() -> None:
    """Errors are compared by identity, and can be in a set."""
    first, second = NotFoundError(kind="room", ref="r"), NotFoundError(kind="room", ref="r")
    assert first != second
    assert len({first, second}) == 2


def test_the_families_are_disjoint() -> None:
    """A refusal is for a person, a fault for a maintainer."""
    assert not issubclass(RefusalError, FaultError)
    assert not issubclass(FaultError, RefusalError)
    with suppress(JamError):
        raise RefusalError


def test_context_is_bounded_text() -> None:
    """Whatever is put in: no field of an error is longer than the bound when it leaves."""
    error = InvalidInputError(field="x" * 10_000, problem="é" * CONTEXT_LIMIT)
    context = error.context()
    assert [len(text) for text in context.values()] == [CONTEXT_LIMIT, CONTEXT_LIMIT]
    assert context["field"].endswith("…")
    assert not context["problem"].endswith("…")


@pytest.mark.parametrize(
    ("value", "text"), [(("a", "b"), "a, b"), ((), ""), (3, "3"), (None, "None"), ("x" * CONTEXT_LIMIT, "x" * CONTEXT_LIMIT)]
)
def test_bounded(value: object, text: str) -> None:
    """Tuples are joined; a text at the bound is whole."""
    assert bounded(value) == text


def test_the_text_names_code_and_fields() -> None:
    """For logs; nothing may depend on it."""
    assert str(NotFoundError(kind="room", ref="r")) == "input.not_found: kind=room, ref=r"
