"""What is tested is what is shipped."""

from __future__ import annotations

import os
from importlib.metadata import requires
from pathlib import Path

import pytest

import jam_claude_code
import jamcore

TOX_ENV = os.environ.get("TOX_ENV_NAME", "")


@pytest.mark.skipif(not TOX_ENV.startswith("plugin-"), reason="runs in tox -e plugin-…: elsewhere both are the working tree")
@pytest.mark.guarantee("KIT-2")
def test_both_come_from_their_wheels() -> None:
    """Under tox the plugin and the core lie in site-packages."""
    for module in (jam_claude_code, jamcore):
        assert "site-packages" in Path(str(module.__file__)).parts


@pytest.mark.guarantee("KIT-2")
def test_it_needs_the_core_alone() -> None:
    """The distribution needs the core and nothing else at run time."""
    assert [need for need in requires("jam-claude-code") or () if "extra ==" not in need] == ["jamcore<1,>=0.1"]
