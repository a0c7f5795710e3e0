"""The published store suite.

Whoever wants Jam's rows in another database writes a few lines::

    from jamcore.testing.store import StoreSuite

    class TestStore(StoreSuite):
        @pytest.fixture
        def empty_url(self) -> Iterator[str]:
            with my_database() as url:
                yield url

Each test gets a database of its own. What a database may be without is a :class:`Feature`, named with the reason; everything else has to
pass. ``python -m jamcore.testing.store`` prints every check with its rule and why it is one.
"""

from __future__ import annotations

import pytest

from jamcore.testing.store.constraints import ConstraintTests
from jamcore.testing.store.content import ContentTests
from jamcore.testing.store.fences import FenceTests
from jamcore.testing.store.imports import ImportTests
from jamcore.testing.store.lives import LifeTests
from jamcore.testing.store.machines import MachineTests
from jamcore.testing.store.operations import OperationTests
from jamcore.testing.store.references import ReferenceTests
from jamcore.testing.store.retries import RetryTests
from jamcore.testing.store.rows import RowTests
from jamcore.testing.store.safekeeping import SafekeepingTests
from jamcore.testing.store.schema import SchemaTests
from jamcore.testing.store.transactions import TransactionTests


@pytest.mark.anyio
class StoreSuite(
    RowTests,
    ContentTests,
    ReferenceTests,
    RetryTests,
    MachineTests,
    OperationTests,
    ImportTests,
    ConstraintTests,
    TransactionTests,
    FenceTests,
    LifeTests,
    SchemaTests,
    SafekeepingTests,
):
    """Everything that a database has to do."""
