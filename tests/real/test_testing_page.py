"""The test that docs/testing.md shows is one, and passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.anyio
@pytest.mark.needs("codex", "bubblewrap")
async def test_the_test_that_is_shown_passes(tmp_path: Path) -> None:
    """As it stands, below the imports that every test has."""
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"pytest": pytest, "Path": Path}
    exec(compile(shown, PAGE.name, "exec"), names)
    await names["test_it_answers"](tmp_path)
