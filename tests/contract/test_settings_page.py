"""Every option is documented from its type, by a page that is made (CONF-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.control.settings import PREFIX, Settings
from jamcore.testing.settings_page import PAGE, render


@pytest.mark.guarantee("CONF-1")
def test_the_page_is_up_to_date(root: Path) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render()


@pytest.mark.guarantee("CONF-1")
def test_every_option_is_on_the_page() -> None:
    """With its variable and its meaning."""
    page = render()
    for name, field in Settings.model_fields.items():
        assert f"## {name}\n" in page
        assert f"`{PREFIX}{name.upper()}`" in page
        assert field.description
        assert field.description in page
