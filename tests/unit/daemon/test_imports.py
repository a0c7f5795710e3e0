"""What a start of the daemon does not load: most of a start is imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unprivileged

NOT_NEEDED = ("alembic", "keyring", "rich", "typer", "sqlalchemy.dialects.postgresql", "jamcore.cli", "jamcore.testing")
CODE = """
import sys
sys.argv = ["jamd", "--help"]
from jamcore.jamd import main
try:
    main()
except SystemExit:
    assert "jamcore.jamd.service" in sys.modules
    print(sorted(set(sys.argv[1:]) | set(MODULES) & set(sys.modules)), file=sys.stderr)
"""


def test_a_start_loads_nothing_that_it_does_not_need() -> None:
    """Consoles, migrations of a schema that is up to date, other databases and the command line stay where they are."""
    code = CODE.replace("MODULES", repr(NOT_NEEDED))
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "['--help']"
