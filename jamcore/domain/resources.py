"""Limits that a plan demands of a sandbox, and what an engine answers: which of them hold here, by which means (PLAN-1, CAP-4).

A limit is a promise or it is refused: nothing is ever limited "as well as possible". So an engine says for each limit how it is held on
this machine, and a demand that it cannot hold ends before anything is made, with the means that were tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from jamcore.domain.errors import InvalidInputError, RefusalError
from jamcore.domain.sandboxes import (
    LEAST_CPUS,
    LEAST_DISK_BYTES,
    LEAST_MEMORY_BYTES,
    LEAST_PROCESSES,
    MOST_BYTES,
    MOST_CPUS,
    MOST_PROCESSES,
    Resources,
)


class Limit(StrEnum):
    """What can be limited: of the whole sandbox, but for the memory of each process."""

    CPUS = "cpus"
    MEMORY = "memory"
    MEMORY_PER_PROCESS = "memory-per-process"
    PIDS = "pids"
    DISK = "disk"


FIELDS: Mapping[Limit, str] = MappingProxyType(
    {
        Limit.CPUS: "cpus",
        Limit.MEMORY: "memory_bytes",
        Limit.MEMORY_PER_PROCESS: "memory_per_process_bytes",
        Limit.PIDS: "processes",
        Limit.DISK: "disk_bytes",
    }
)
"""Which field of a plan's resources demands which limit."""

BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "cpus": (LEAST_CPUS, MOST_CPUS),
        "memory_bytes": (LEAST_MEMORY_BYTES, MOST_BYTES),
        "memory_per_process_bytes": (LEAST_MEMORY_BYTES, MOST_BYTES),
        "processes": (LEAST_PROCESSES, MOST_PROCESSES),
        "disk_bytes": (LEAST_DISK_BYTES, MOST_BYTES),
    }
)
"""What makes sense, as the record itself declares it."""


class Means(StrEnum):
    """What holds a limit."""

    CGROUP = "cgroup"
    RLIMIT = "rlimit"
    ENGINE = "engine"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Holding:
    """How an engine holds one limit on this machine.

    ``detail`` says how, or which means were tried and why they do not hold; ``remedy`` says what a person can do about the latter.
    """

    limit: Limit
    means: Means
    detail: str
    remedy: str = ""

    @property
    def held(self) -> bool:
        """Whether a demand for this limit can be kept."""
        return self.means is not Means.NONE


@dataclass(eq=False)
class LimitNotHeldError(RefusalError):
    """A limit was demanded that this engine cannot hold on this machine. Nothing was made (CAP-4)."""

    code: ClassVar[str] = "engine.limit_not_held"
    hint: ClassVar[str] = "Leave that limit off, choose another engine, or do what the remedy says; `jam doctor` lists every limit."

    engine: str
    limit: str
    tried: str
    remedy: str


def demanded(resources: Resources) -> tuple[Limit, ...]:
    """Return the limits that are asked for."""
    return tuple(limit for limit, field in FIELDS.items() if getattr(resources, field) is not None)


def require_held(resources: Resources, holdings: Iterable[Holding], *, engine: str) -> None:
    """Accept what the engine holds.

    Raises:
        LimitNotHeldError: The first demanded limit that it does not; one that it says nothing about is not held.
    """
    known = {holding.limit: holding for holding in holdings}
    for limit in demanded(resources):
        found = known.get(limit)
        if found is None or not found.held:
            tried = found.detail if found else "the engine limits no resources"
            raise LimitNotHeldError(engine=engine, limit=limit, tried=tried, remedy=found.remedy if found else "")


def with_defaults(asked: Resources, defaults: Resources) -> Resources:
    """Return what is asked for, completed by the defaults for what is not."""
    missing = {field: getattr(defaults, field) for field in FIELDS.values() if getattr(asked, field) is None}
    return asked.model_copy(update=missing)


def limits_in_words(asked: Resources) -> str:
    """Return limits as a person wrote them: ``cpus 1.5, memory 4G``; empty when there is none."""
    return ", ".join(f"{limit} {_words(getattr(asked, FIELDS[limit]), limit)}" for limit in demanded(asked))


def _words(value: float, limit: Limit) -> str:
    if value > _MOST_SHOWN:
        return "a larger one"
    if limit is Limit.PIDS:
        return f"{value:.0f}"
    if limit is Limit.CPUS:
        return f"{value:g}"
    unit = next((name for name, each in reversed(tuple(_UNITS.items())) if value >= each), "")
    return f"{value / _UNITS[unit]:.4g}{unit}"


_SIZE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
_UNITS = MappingProxyType({"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40})
_MOST_SHOWN = 1 << 62
"""A number beyond this is a slip, and some are too large for a float: nobody needs to read its digits again."""


def size(text: str, *, field: str) -> int:
    """Return the bytes of ``512M``, ``1.5GiB`` or ``1073741824``: units are powers of 1024.

    Raises:
        InvalidInputError: It is no size.
    """
    found = _SIZE.match(text.strip())
    if found is None:
        raise InvalidInputError(field=field, problem=f"{text[:40]!r} is no size; write 512M or 4G")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def resources(
    *,
    cpus: float | None = None,
    memory: str | None = None,
    memory_per_process: str | None = None,
    pids: int | None = None,
    disk: str | None = None,
) -> Resources:
    """Return the resources that words ask for.

    Raises:
        InvalidInputError: One is no size, or outside what makes sense.
    """
    found = Resources.model_construct(
        cpus=cpus,
        memory_bytes=_bytes(memory, Limit.MEMORY),
        memory_per_process_bytes=_bytes(memory_per_process, Limit.MEMORY_PER_PROCESS),
        processes=pids,
        disk_bytes=_bytes(disk, Limit.DISK),
    )
    for limit, field in FIELDS.items():
        low, high = BOUNDS[field]
        value = getattr(found, field)
        if value is not None and not low <= value <= high:
            said = f"must be between {_words(low, limit)} and {_words(high, limit)}"
            raise InvalidInputError(field=limit, problem=f"{said}, not {_words(value, limit)}")
    return Resources.model_validate(found.model_dump())


def _bytes(text: str | None, limit: Limit) -> int | None:
    return None if text is None else size(text, field=limit)
