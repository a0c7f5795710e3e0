"""A program that behaves as the ``sbx`` CLI of Docker Sandboxes, with real guests: see ``simulator.Simulator``.

It is written apart from every driver: what it prints comes from the samples of the facts sheet alone, and what is a fact and what a
guess is marked for each behaviour (:mod:`jamcore.testing.sbx.behaviours`, docs/sbx-simulator.md). A driver's tests use
``Simulator`` and nothing else of this package.
"""
