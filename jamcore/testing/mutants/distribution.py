"""Mutants whose distribution brings more along than the plugin."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import PROJECT, Edit, Mutant

PART = "ProviderDistribution"
MUTANTS = (
    Mutant(
        "brings-something-along",
        f"{PART}.test_it_needs_the_core_alone",
        (Edit(PROJECT, 'dependencies = ["jamcore>=0.1,<1"]', 'dependencies = ["jamcore>=0.1,<1", "packaging>=24"]'),),
    ),
)
