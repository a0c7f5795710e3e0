"""What a fault of a store is, and how it is put into a good one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from jamcore.store.repos.base import Repository

Breaks = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be bad.

    Attributes:
        name: What such a store does, in words.
        what: The same in a sentence.
        found_by: The name of the one check that fails; of a check with cases some have to.
        apply: Makes the good store of this process bad, until the patch is undone.
    """

    name: str
    what: str
    found_by: str
    apply: Breaks


def found_by(check: str) -> Callable[[Breaks], Fault]:
    """Make a fault of a function that breaks a store; its name and its docstring are the fault's."""

    def make(breaks: Breaks) -> Fault:
        return Fault(breaks.__name__.replace("_", " "), inspect.getdoc(breaks) or "", check, breaks)

    return make


def faults_of(module: ModuleType) -> tuple[Fault, ...]:
    """Return the faults of a module in the order in which they are written."""
    return tuple(each for each in vars(module).values() if isinstance(each, Fault))


def around(patch: pytest.MonkeyPatch, owner: object, name: str, bad: Callable[..., Any]) -> None:
    """Replace a function by one that is given the good one first."""
    good = getattr(owner, name)

    @functools.wraps(good)
    def replaced(*arguments: Any, **named: Any) -> Any:
        return bad(good, *arguments, **named)

    patch.setattr(owner, name, replaced)


def forgets(patch: pytest.MonkeyPatch, repository: type[Repository], column: str) -> None:
    """Let a repository not look at one column when it is given a known id again."""

    def insert_once(good: Any, self: Any, identifier: Any, values: Any, *, compare: Any, taken: str = "") -> Any:
        return good(self, identifier, values, compare=[name for name in compare if name != column], taken=taken)

    around(patch, repository, "_insert_once", insert_once)
