"""The environment of a guest's processes: put together from the plan and what Jam makes, never from the host's (ENV-1, ENV-2).

It travels with each start over the engine's own connection, so there is no environment file that could be left behind (PREP-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jamcore.domain.environment import environment_problems
from jamcore.domain.errors import RefusalError


@dataclass(eq=False)
class EnvironmentRefusedError(RefusalError):
    """A variable may not enter a guest; its value is not shown (ENV-2)."""

    code: ClassVar[str] = "environment.refused"
    hint: ClassVar[str] = "Secrets are added outside the guest: set a credential with `jam credential set NAME` instead."

    problems: tuple[str, ...]


def guest_environment(*parts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Put an environment together from its parts, in order. One name may come from two parts only with one value.

    Raises:
        EnvironmentRefusedError: A name or a value breaks the rules, with every fault and no value.
    """
    pairs = tuple(dict.fromkeys(pair for part in parts for pair in part))
    if problems := environment_problems(pairs):
        raise EnvironmentRefusedError(problems=problems)
    return pairs
