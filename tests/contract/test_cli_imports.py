"""The command line stays quick: it loads what a client needs and nothing of the daemon."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

HEAVY = (
    "sqlalchemy",
    "alembic",
    "aiohttp.web",
    "prompt_toolkit",
    "jamcore.store",
    "jamcore.daemon",
    "jamcore.engines",
    "jamcore.testing",
    "jam_codex",
)


def test_help_loads_nothing_of_the_daemon() -> None:
    """``jam --help`` imports neither SQLAlchemy nor aiohttp's server, no plugin, and nothing behind the control interface."""
    if find_spec("jamcore.cli") is None:
        pytest.skip("needs jamcore.cli, which is not there yet")
    program = f"""if True:
        import sys
        from jamcore.cli.main import main
        sys.argv = ["jam", "--help"]
        try:
            main()
        finally:
            print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded:"
