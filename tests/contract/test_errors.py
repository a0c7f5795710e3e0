"""Every typed error has a stable code of its own, a hint, and a place in the documentation."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest

from jamcore.domain.errors import JamError
from jamcore.testing.error_page import PAGE, load_errors, render

CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")


@pytest.fixture(scope="module")
def errors(root: Path, whole_workspace: None) -> tuple[type[JamError], ...]:
    """Every error of the core and of the plugins."""
    return load_errors(root)


def test_codes_are_unique(errors: tuple[type[JamError], ...]) -> None:
    """One code, one class: a client that branches on a code means one thing."""
    counts = Counter(error.code for error in errors)
    assert {code: [e.__qualname__ for e in errors if e.code == code] for code, n in counts.items() if n > 1} == {}


def test_codes_have_one_form(errors: tuple[type[JamError], ...]) -> None:
    """A code is ``family.reason`` in lower case, written in the class itself."""
    assert [error.__qualname__ for error in errors if not CODE.match(error.code) or "code" not in vars(error)] == []


def test_every_error_has_a_hint(errors: tuple[type[JamError], ...]) -> None:
    """Each class says in a sentence of its own or of its base what a person can do."""
    assert [error.__qualname__ for error in errors if len(error.hint.strip()) < 10 or not error.__doc__] == []


def test_errors_can_be_raised_through_standard_machinery(errors: tuple[type[JamError], ...]) -> None:
    """No error is frozen, slotted or compared by value: context managers set its traceback, anybody may add a note, sets may hold it."""
    for error in errors:
        assert dataclasses.is_dataclass(error)
        instance = error.__new__(error)
        instance.add_note("note")
        assert instance.with_traceback(None) is instance
        assert "__slots__" not in vars(error), error
        assert error.__hash__ is object.__hash__, error
        assert not error.__dataclass_params__.frozen, error  # type: ignore[attr-defined]  # of the standard library, not in its stubs


def test_names_end_in_error(errors: tuple[type[JamError], ...]) -> None:
    """A reader sees from the name what is raised."""
    assert [error.__qualname__ for error in errors if not error.__name__.endswith("Error")] == []


@pytest.mark.guarantee("CTRL-3")
def test_the_page_is_up_to_date(root: Path, errors: tuple[type[JamError], ...]) -> None:
    """docs/errors.md is what the code says; `make guarantees` makes it anew."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(errors)
