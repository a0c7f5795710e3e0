"""The store suite: what every database has to do for Jam. Subclass :class:`StoreSuite`, say where a database is, run pytest."""

from jamcore.testing.store.base import Feature
from jamcore.testing.store.suite import StoreSuite

__all__ = ["Feature", "StoreSuite"]
