"""What happens at start-up, in order (START-1). Each step logs and goes on: one bad record blocks no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import structlog

from jamcore.domain.errors import FaultError, JamError

R = TypeVar("R")
DETAIL_CHARACTERS = 300


Problems = tuple[tuple[object, JamError], ...]
"""What a step met and survived, as (record, error)."""


@dataclass(eq=False)
class StartRecordError(FaultError):
    """A record could not be brought in order at the start; it is kept as it is, and the next start tries it again."""

    code: ClassVar[str] = "startup.record_failed"
    hint: ClassVar[str] = (
        "Everything else was started. The daemon's log has the details; a damaged row or file is kept for inspection."
    )

    record: str
    detail: str


@dataclass(frozen=True, slots=True)
class StartStep:
    """One named step. ``run`` returns the problems that it met and survived."""

    name: str
    run: Callable[[], Awaitable[Problems]]


ORDER = (
    "pending sandbox clean-ups",
    "host clean-ups",
    "hosts left by the last daemon",
    "checkpoint publications",
    "files of interrupted writes",
    "checkpoint payload deletions",
    "continuity resets",
    "workspace reconciliation",
    "runs without a change request",
)
"""The steps that exist, in the order of START-1, which also says where a further one belongs."""


async def each(records: Iterable[R], work: Callable[[R], Awaitable[object]]) -> Problems:
    """Do one record after the other; whatever is wrong with one blocks no other (START-1)."""
    log = structlog.get_logger("jam.startup")
    problems: list[tuple[object, JamError]] = []
    for record in records:
        try:
            await work(record)
        except JamError as error:
            problems.append((record, error))
        except Exception as error:
            # Named boundary: a damaged row or file shows in as many ways as it can be damaged.
            log.exception("a record could not be brought in order", record=str(record))
            problems.append((record, StartRecordError(record=str(record), detail=repr(error)[:DETAIL_CHARACTERS])))
    return tuple(problems)


async def start_up(steps: tuple[StartStep, ...], told: Callable[[str], None] = lambda _doing: None) -> tuple[str, ...]:
    """Run every step in order and return what went wrong, one line each.

    Args:
        steps: All of them.
        told: Told each step's name before it begins, and nothing at the end: a person may be waiting for the daemon.

    Raises:
        ValueError: The steps are not those of :data:`ORDER`.
    """
    if tuple(step.name for step in steps) != ORDER:
        raise ValueError("start-up steps out of order")
    log = structlog.get_logger("jam.startup")
    problems = []
    for step in steps:
        told(step.name)
        try:
            met = await step.run()
        except Exception as error:
            log.exception("start-up step failed", step=step.name)
            problems.append(f"{step.name}: {error}")
            continue
        for record, problem in met:
            log.warning("start-up record failed", step=step.name, record=str(record), error=str(problem))
            problems.append(f"{step.name}: {record}: {problem}")
    told("")
    return tuple(problems)
