"""What a check of the engine suite is: a topic, a rule, why it is one, and what an engine must claim before it is asked.

The rule is the first line of the test's docstring and the name is the test's. An engine that does not claim what a check is about is
skipped with the words "not claimed" and the reason, so that a report of the suite says by name what was not proven.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import EnginePlugin
from jamcore.testing.proof import NOT_CLAIMED

__all__ = ["NOT_CLAIMED", "Check", "Topic", "check", "check_of", "checks_of"]

_ATTRIBUTE = "jam_engine_check"
_Test = TypeVar("_Test", bound=Callable[..., Any])


class Topic(StrEnum):
    """What real engines get wrong, by subject; each has at least one check."""

    BYTES = "bytes in and out exactly"
    HALF_CLOSE = "half-close"
    LARGE_STREAMS = "100 MB streams"
    BACK_PRESSURE = "back-pressure"
    ARGUMENTS = "huge and odd arguments"
    EXITS = "exit codes and signals"
    TIME_LIMITS = "time limits that end the whole tree"
    TREES = "whole process trees"
    DIRECTORY = "directory and environment"
    USERS = "users"
    TERMINALS = "terminals with resize"
    ZOMBIES = "zombies"
    AT_ONCE = "many at once"
    GONE = "the sandbox is gone"
    SICK = "the engine is sick: unknown is not absent"
    LIFE = "presence, inventory, start and stop"
    CREATION = "creations that fail, are cancelled or race"
    DISK = "what stays and what goes"
    MOUNTS = "mounts"
    FREEZE = "freeze"
    REACH = "reach"
    VIEW = "the guest's files on the host"
    CLONE = "private clones"
    RESOURCES = "resources"
    ESCAPES = "escapes"


@dataclass(frozen=True, slots=True)
class Check:
    """One check as the suite's table shows it. ``isolation`` is the weakest class for which the rule is a promise at all."""

    name: str
    topic: Topic
    rule: str
    why: str
    abilities: tuple[Ability, ...] = ()
    isolation: Isolation = Isolation.NONE

    def not_claimed(self, plugin: type[EnginePlugin]) -> str | None:
        """Return why this check is not put to an engine, or ``None`` when it must pass."""
        if missing := sorted(set(self.abilities) - plugin.abilities):
            return f"{plugin.name} does not have the ability {', '.join(missing)}"
        if plugin.isolation < self.isolation:
            needed, given = self.isolation.name.lower(), plugin.isolation.name.lower()
            return f"it is promised from the isolation class {needed} on, {plugin.name} is of the class {given}"
        return None


def check(topic: Topic, why: str, *abilities: Ability, isolation: Isolation = Isolation.NONE) -> Callable[[_Test], _Test]:
    """Make a test one of the suite's checks.

    Args:
        topic: The subject.
        why: What happened, or would happen, to people whose engine breaks the rule.
        abilities: What the engine must have.
        isolation: The weakest isolation class that promises this.
    """

    def mark(test: _Test) -> _Test:
        rule = (inspect.getdoc(test) or "").partition("\n")[0]
        if not rule:
            raise TypeError(f"{test.__qualname__}: a check's rule is the first line of its docstring")
        name = test.__name__.removeprefix("test_").replace("_", "-")
        setattr(test, _ATTRIBUTE, Check(name, topic, rule, why, abilities, isolation))
        return test

    return mark


def check_of(test: Callable[..., Any]) -> Check | None:
    """Return the check that a test is."""
    found = getattr(test, _ATTRIBUTE, None)
    return found if isinstance(found, Check) else None


def checks_of(suite: type) -> tuple[Check, ...]:
    """Return every check of a suite, by topic and name.

    Raises:
        TypeError: A test of the suite is no check.
    """
    found = []
    for name, member in inspect.getmembers(suite, inspect.isfunction):
        if name.startswith("test_"):
            if (one := check_of(member)) is None:
                raise TypeError(f"{suite.__name__}.{name} is no check")
            found.append(one)
    order = list(Topic)
    return tuple(sorted(found, key=lambda one: (order.index(one.topic), one.name)))
