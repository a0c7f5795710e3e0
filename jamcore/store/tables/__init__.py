"""The tables, one module for each aggregate, all on one metadata. Times are ISO text in UTC, UUIDs are text, records are JSON text."""

from __future__ import annotations

from jamcore.store.tables import (
    approvals,
    continuity,
    conversation,
    exports,
    host_native,
    hosts,
    operations,
    resets,
    retention,
    safekeeping,
    work,
)
from jamcore.store.tables.base import METADATA

__all__ = [
    "METADATA",
    "approvals",
    "continuity",
    "conversation",
    "exports",
    "host_native",
    "hosts",
    "operations",
    "resets",
    "retention",
    "safekeeping",
    "work",
]
