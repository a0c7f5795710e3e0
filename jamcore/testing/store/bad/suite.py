"""The store suite on bad stores: collected by :mod:`jamcore.testing.store.bad.running`, which says which checks are put to which."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.store import open_store
from jamcore.system.files import Files
from jamcore.testing.store import StoreSuite
from jamcore.testing.store.bad import Fault, applied
from jamcore.testing.store.records import HandClock


@pytest.fixture
def anyio_backend() -> str:
    """Jam runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that a good store has made, to be copied."""
    path = tmp_path_factory.mktemp("blank") / "jam.db"

    async def make() -> None:
        async with open_store(path, files=Files(), clock=HandClock(), daemon_id=UUID(int=1)):
            pass

    anyio.run(make)
    return path


class TestBad(StoreSuite):
    """A file in a directory of the test's own, and a store with one fault."""

    @pytest.fixture(autouse=True)
    def _bad(self, blank: Path, fault: Fault) -> Iterator[None]:
        assert blank.exists()
        with applied(fault):
            yield

    @pytest.fixture
    def empty_url(self, tmp_path: Path) -> str:
        """No file is there yet."""
        return f"sqlite:///{tmp_path}/jam.db"

    @pytest.fixture
    def database_url(self, empty_url: str, tmp_path: Path, blank: Path) -> str:
        """A copy."""
        shutil.copy(blank, tmp_path / "jam.db")
        return empty_url
