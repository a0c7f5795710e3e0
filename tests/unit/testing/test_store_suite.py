"""The store suite covers what the domain and the schema have."""

from __future__ import annotations

import importlib
import pkgutil

import jamcore.domain
from jamcore.domain.operations import OPERATION
from jamcore.domain.transitions import TransitionTable
from jamcore.testing.store.machines import MACHINES


def test_every_machine_of_the_domain_is_tried() -> None:
    """A new transition table has to be put through the store before it counts; operations have tests of their own."""
    modules = [importlib.import_module(f"jamcore.domain.{found.name}") for found in pkgutil.iter_modules(jamcore.domain.__path__)]
    tables = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, TransitionTable)}
    tried = {id(machine.rules) for machine in MACHINES} | {id(OPERATION)}
    assert {id(machine.rules) for machine in MACHINES} <= set(tables)
    assert [table.machine for identity, table in tables.items() if identity not in tried] == []


def test_every_machine_is_tried_in_all_its_states() -> None:
    """The states are those of the rules."""
    for machine in MACHINES:
        assert {state for edge in machine.rules.edges() for state in edge} <= set(machine.states)
