"""What is remembered: tables, repositories and transactions. SQLAlchemy stays inside this package; rows never leave it."""

from __future__ import annotations

from jamcore.store.engine import Store, open_store
from jamcore.store.errors import (
    FencedError,
    StoreBusyError,
    StoreConstraintError,
    StoreFullError,
    StoreNewerError,
    StoreUnreachableError,
    StoreUnusableError,
)
from jamcore.store.journal import StoreJournal
from jamcore.store.repos import Fence, Repos

__all__ = [
    "Fence",
    "FencedError",
    "Repos",
    "Store",
    "StoreBusyError",
    "StoreConstraintError",
    "StoreFullError",
    "StoreJournal",
    "StoreNewerError",
    "StoreUnreachableError",
    "StoreUnusableError",
    "open_store",
]
