"""Mutants of the provider suite: bad plugins, each of which breaks one rule, and shows that the suite finds it and nothing else.

A suite that passes a bad plugin proves nothing. The good plugin is the one that ``jam plugin new`` makes; a :class:`~.mutation.Mutant` is
that one with a small named change, and names the check that has to fail. ``python -m jamcore.testing.mutants`` runs them.
"""
