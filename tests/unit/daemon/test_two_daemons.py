"""Two daemons composed in one process share no object that can change: nothing is global but code (style 6.10)."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from uuid import UUID

import anyio
import pytest
import sqlalchemy
from pydantic import BaseModel, TypeAdapter

from jamcore.daemon.compose import composed
from jamcore.daemon.options import DaemonOptions
from jamcore.domain import layout
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.pool import WorkerPool
from jamcore.store import Store
from jamcore.system.files import Files

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]

CONSTANT = (str, bytes, int, float, bool, complex, type(None), Enum, UUID, datetime, timedelta, PurePath, re.Pattern, range)
CODE = (type, ModuleType, BuiltinFunctionType, property, logging.Logger, TypeAdapter)
"""Loggers belong to the process: so does its one log. A type adapter is compiled code."""
OURS = ("jamcore", "jam_", "test_two_daemons")


def reach(root: object) -> dict[int, object]:
    """Return everything that can change and that ``root`` leads to: by attributes, items, closures, bound methods.

    Objects of other packages are noted and not opened: what is behind them is theirs.
    """
    found: dict[int, object] = {}
    seen: set[int] = set()
    waiting = deque([root])
    while waiting:
        value = waiting.popleft()
        if id(value) in seen or isinstance(value, (*CONSTANT, *CODE)):
            continue
        seen.add(id(value))
        waiting.extend(inside(value))
        if not is_constant(value):
            found[id(value)] = value
    return found


def inside(value: object) -> Iterator[object]:
    """Yield what an object leads to directly."""
    if isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if not empty(cell))
        yield from value.__defaults__ or ()
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, Mapping):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, tuple | list | set | frozenset | deque):
        yield from value
    elif type(value).__module__.startswith(OURS) or isinstance(value, BaseModel):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
        for kind in type(value).__mro__:
            names = kind.__dict__.get("__slots__", ())
            kept = (names,) if isinstance(names, str) else names
            # A record's own dictionary is a part of it: whether that can change, the record says.
            yield from (getattr(value, name) for name in kept if not name.startswith("__") and hasattr(value, name))


def empty(cell: object) -> bool:
    try:
        getattr(cell, "cell_contents")  # noqa: B009 - reading it is the question
    except ValueError:
        return True
    return False


def is_constant(value: object) -> bool:
    """Whether the object itself cannot change; what is in it is looked at all the same."""
    if isinstance(value, tuple | frozenset | MappingProxyType | FunctionType | MethodType | partial):
        return True
    if isinstance(value, BaseModel):
        return bool(value.model_config.get("frozen"))
    params = getattr(type(value), "__dataclass_params__", None)
    return dataclasses.is_dataclass(value) and params is not None and bool(params.frozen)


def options(directory: Path, files: Files | None = None) -> DaemonOptions:
    """What a daemon of its own is told; the seams are its own too."""
    made = files or Files()
    made.make_private(directory)
    return DaemonOptions(
        app=directory, runtime=directory / "run", version="1", pid=1, environment={"HOME": str(directory)}, files=made
    )


async def both(first: DaemonOptions, second: DaemonOptions) -> tuple[dict[int, object], dict[int, object]]:
    """Compose two daemons at once and walk both."""
    async with composed(first) as one, composed(second) as two:
        await one.system.doctor()
        await two.system.doctor()
        return reach((first, one)), reach((second, two))


async def test_two_daemons_share_nothing(tmp_path: Path) -> None:
    """By identity: no container, no service, no lock, no connection pool of one is reached from the other."""
    one, two = await both(options(tmp_path / "one"), options(tmp_path / "two"))
    shared = [one[key] for key in one.keys() & two.keys()]
    assert not shared, "\n".join(f"{type(value).__module__}.{type(value).__qualname__}: {value!r:.200}" for value in shared)
    kinds = {type(value) for value in one.values()}
    assert {Store, WorkerPool, RoomFeed, Files, sqlalchemy.Engine, dict} <= kinds, "the walk does not reach far enough"
    assert any(isinstance(value, anyio.CapacityLimiter) for value in one.values())


async def test_the_walk_sees_what_is_shared(tmp_path: Path) -> None:
    """One object given to both is found."""
    files = Files()
    one, two = await both(options(tmp_path / "one", files), options(tmp_path / "two", files))
    assert any(one[key] is files for key in one.keys() & two.keys())


async def test_each_has_an_identity_and_a_database_of_its_own(tmp_path: Path) -> None:
    """What one is told the other does not know."""
    async with composed(options(tmp_path / "one")) as one, composed(options(tmp_path / "two")) as two:
        await one.credentials.set("mine", "sk-" + "a" * 20)
        assert [row.present for row in await one.credentials.list() if row.name == "mine"] == [True]
        assert not [row for row in await two.credentials.list() if row.name == "mine"]
        assert (await one.system.health()).daemon_id != (await two.system.health()).daemon_id
        one.system.shutdown()
        with anyio.fail_after(5):
            await one.system.stopped()
        with anyio.move_on_after(0.05) as waited:
            await two.system.stopped()
        assert waited.cancelled_caught
    assert (tmp_path / "one" / layout.DATABASE).exists()
    assert (tmp_path / "two" / layout.DATABASE).exists()
