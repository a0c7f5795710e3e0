"""Mutants."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import Mutant

MUTANTS: tuple[Mutant, ...] = ()
