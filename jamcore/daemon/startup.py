"""What happens at start-up, in order (START-1). Each step logs and goes on: one bad record blocks no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from jamcore.domain.errors import JamError


@dataclass(frozen=True, slots=True)
class StartStep:
    """One named step. ``run`` returns the problems that it met and survived, as (record, error)."""

    name: str
    run: Callable[[], Awaitable[tuple[tuple[object, JamError], ...]]]


ORDER = (
    "pending sandbox clean-ups",
    "hosts left by the last daemon",
    "checkpoint publications",
    "files of interrupted writes",
    "workspace reconciliation",
    "runs without a change request",
)
"""The steps that exist, in the order of START-1, which also says where a further one belongs."""


async def start_up(steps: tuple[StartStep, ...]) -> tuple[str, ...]:
    """Run every step in order and return what went wrong, one line each.

    Raises:
        ValueError: The steps are not those of :data:`ORDER`.
    """
    if tuple(step.name for step in steps) != ORDER:
        raise ValueError("start-up steps out of order")
    log = structlog.get_logger("jam.startup")
    problems = []
    for step in steps:
        try:
            met = await step.run()
        except Exception as error:
            log.exception("start-up step failed", step=step.name)
            problems.append(f"{step.name}: {error}")
            continue
        for record, problem in met:
            log.warning("start-up record failed", step=step.name, record=str(record), error=str(problem))
            problems.append(f"{step.name}: {record}: {problem}")
    return tuple(problems)
