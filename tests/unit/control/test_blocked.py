"""Plugins are blocked by one setting, named in the environment or in the file (CONF-1, PLUG-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jamcore.control.settings import CONFIG, load_settings

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CONF-1")]


@pytest.mark.parametrize(("text", "names"), [("", ()), ("a", ("a",)), (" a, b ,,c,", ("a", "b", "c"))])
def test_names_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: tuple[str, ...]) -> None:
    """Separated by commas; blanks do not count; shown as they were meant."""
    monkeypatch.setenv("JAM_BLOCKED_PLUGINS", text)
    loaded = load_settings(tmp_path, {"JAM_BLOCKED_PLUGINS": text})
    assert loaded.settings.blocked_plugins == names
    (row,) = [row for row in loaded.rows() if row.name == "blocked_plugins"]
    assert row.value == ", ".join(names)


def test_names_in_the_file(tmp_path: Path) -> None:
    """A list, as TOML has them."""
    (tmp_path / CONFIG).write_text('blocked_plugins = ["x", "y"]\n')
    assert load_settings(tmp_path, {}).settings.blocked_plugins == ("x", "y")
