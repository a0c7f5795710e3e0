"""All mutants, and the checks that have none with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.testing.mutants import (
    approvals,
    bad_programs,
    declarations,
    distribution,
    kills,
    loopback,
    model_faults,
    pitfalls,
    resume,
    turns,
)
from jamcore.testing.mutants.mutation import Base, Mutant

PARTS = (declarations, distribution, turns, approvals, resume, kills, pitfalls, model_faults, bad_programs, loopback)
"""The modules of data: one for each part of the suite."""
MUTANTS: Mapping[str, Mutant] = MappingProxyType({mutant.name: mutant for part in PARTS for mutant in part.MUTANTS})
"""The mutants by name."""
BASES: Mapping[str, Base] = MappingProxyType({mutant.base.name: mutant.base for mutant in MUTANTS.values()})
"""The good plugins from which they are made, by name."""
WITHOUT: Mapping[str, str] = MappingProxyType(
    {
        "ProviderDistribution.test_both_come_from_their_wheels": "where a plugin lies is not in its files: a test of its own moves it",
    }
)
"""Checks that no mutant of a plugin can fail, with the reason."""


def parts_of(mutant: Mutant) -> frozenset[str]:
    """Return the class of the suite that has the check which finds a mutant: its other checks have to pass."""
    return frozenset({mutant.found_by.partition(".")[0]})


def parts_on(base: Base) -> frozenset[str]:
    """Return the classes of the suite that are asked of the mutants which are made from a good plugin."""
    return frozenset().union(*(parts_of(mutant) for mutant in MUTANTS.values() if mutant.base.name == base.name))
