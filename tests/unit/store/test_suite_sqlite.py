"""SQLite passes the store suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jamcore.testing.store import StoreSuite

pytestmark = pytest.mark.unprivileged


class TestSqlite(StoreSuite):
    """A file in a directory of the test's own."""

    @pytest.fixture
    def empty_url(self, tmp_path: Path) -> str:
        """No file is there yet."""
        return f"sqlite:///{tmp_path}/jam.db"

    @pytest.fixture
    def database_url(self, empty_url: str, tmp_path: Path, blank_database: Path) -> str:
        """The schema is made once and copied."""
        shutil.copy(blank_database, tmp_path / "jam.db")
        return empty_url
