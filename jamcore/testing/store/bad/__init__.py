"""Stores that break one rule each, made from a good one: what the store suite must find, and find alone.

A suite that passes on a bad store proves nothing. Each :class:`Fault` names the check that has to fail; all others have to pass. To see
that on another database::

    class TestBad(TestStore):
        @pytest.fixture(autouse=True)
        def bad(self) -> Iterator[None]:
            with applied(FAULTS["never gives a number twice"]):
                yield

Faults of the database itself are written for SQLite. ``python -m jamcore.testing.store.bad`` runs them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import pytest

from jamcore.testing.store.bad import content, database, lives, owners, rows, rules, schema, transactions
from jamcore.testing.store.bad.fault import Fault, faults_of

_MODULES = (rows, content, rules, database, transactions, owners, lives, schema)
FAULTS: Mapping[str, Fault] = MappingProxyType({fault.name: fault for module in _MODULES for fault in faults_of(module)})
"""Every fault by name."""


@contextmanager
def applied(fault: Fault) -> Iterator[None]:
    """Make the store of this process bad for the length of the context."""
    with pytest.MonkeyPatch.context() as patch:
        fault.apply(patch)
        yield


__all__ = ["FAULTS", "Fault", "applied"]
