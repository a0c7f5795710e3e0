"""Continuity resets: which old session and binding became which new one.

Revision: 0006, after 0005.
"""

from __future__ import annotations

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade; downgrades are not offered."""
