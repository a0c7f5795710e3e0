"""The predecessors' variables: each accepted, in one order, from one data file (CONF-1)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.control import predecessors
from jamcore.control.failures import SettingsInvalidError
from jamcore.control.settings import PREFIX, Settings, load_settings

pytestmark = pytest.mark.guarantee("CONF-1")

NAMES = [(option, variable) for option, variables in predecessors.names().items() for variable in variables]
GIVEN = {"cpus": ("2", 2.0), "memory": ("512m", "512m"), "pids": ("128", "128"), "engine": ("spaces", "spaces")}
"""What is put in a variable, and how it is shown; by default the same text."""


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith((PREFIX, "XMODE_SANDBOX_", "CODEX_DOCKER_")):
            monkeypatch.delenv(name)


def shown(home: Path, option: str) -> tuple[object, str]:
    return {row.name: (row.value, row.origin) for row in load_settings(home, os.environ).rows()}[option]


def value(option: str, text: str) -> object:
    return float(text) if option == "cpus" else text


def test_limits_storage_engine_and_its_host_have_older_names() -> None:
    """Two for each, of the one family and of the other; and each is an option of today."""
    found = predecessors.names()
    assert set(found) == {"engine", "engine_host", "storage_volume", "cpus", "memory", "pids"}
    assert set(found) <= set(Settings.model_fields)
    for newer, older in found.values():
        assert newer.startswith("XMODE_SANDBOX_")
        assert older.startswith("CODEX_DOCKER_")


@pytest.mark.parametrize(("option", "variable"), NAMES)
def test_each_name_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, variable: str) -> None:
    """Alone it decides, and the settings say that it did."""
    text, wanted = GIVEN.get(option, ("given", "given"))
    monkeypatch.setenv(variable, text)
    assert shown(tmp_path, option) == (wanted, variable)


@pytest.mark.parametrize("option", list(predecessors.names()))
def test_the_order_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """The older family gives way to the newer, both to the file, that to Jam's own variable, and that to the command line."""
    newer, older = predecessors.names()[option]
    ours = f"{PREFIX}{option.upper()}"
    texts = ("11", "12", "13", "14", "15") if option == "cpus" else ("164", "165", "166", "167", "168")
    if option == "memory":
        texts = ("164M", "165M", "166M", "167M", "168M")
    monkeypatch.setenv(older, texts[0])
    assert shown(tmp_path, option) == (value(option, texts[0]), older)
    monkeypatch.setenv(newer, "")
    assert shown(tmp_path, option)[1] == older
    monkeypatch.setenv(newer, texts[1])
    assert shown(tmp_path, option) == (value(option, texts[1]), newer)
    line = f"{option} = {texts[2]}" if option in ("cpus", "pids") else f'{option} = "{texts[2]}"'
    (tmp_path / "config.toml").write_text(line)
    assert shown(tmp_path, option) == (value(option, texts[2]), str(tmp_path / "config.toml"))
    monkeypatch.setenv(ours, texts[3])
    assert shown(tmp_path, option) == (value(option, texts[3]), ours)
    loaded = load_settings(tmp_path, os.environ, **{option: texts[4]})
    assert {row.name: (row.value, row.origin) for row in loaded.rows()}[option] == (value(option, texts[4]), "command line")


def test_a_wrong_value_is_refused_with_the_name_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever set it long ago finds it."""
    monkeypatch.setenv("CODEX_DOCKER_MEMORY", "lots")
    with pytest.raises(SettingsInvalidError) as refused:
        load_settings(tmp_path, os.environ)
    assert (refused.value.option, refused.value.origin) == ("memory", "CODEX_DOCKER_MEMORY")
