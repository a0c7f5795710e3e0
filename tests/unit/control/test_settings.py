"""The one settings object (CONF-1)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.control.failures import SettingsInvalidError
from jamcore.control.settings import Settings, load_settings
from jamcore.domain import limits
from jamcore.domain.sandboxes import Resources

pytestmark = pytest.mark.guarantee("CONF-1")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("JAM_"):
            monkeypatch.delenv(name)


def test_every_option_says_what_it_means() -> None:
    """An option without a description cannot be documented."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_default_limits_are_those_of_the_domain(tmp_path: Path) -> None:
    """There is one place for numbers."""
    settings = load_settings(tmp_path, {}).settings
    assert settings.read_timeout_s == limits.READ_TIMEOUT_S
    assert settings.forced_exit_s == limits.FORCED_EXIT_S


def test_command_line_wins_over_variable_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value names its origin."""
    (tmp_path / "config.toml").write_text('engine = "file"\nlog_level = "error"\ncreate_timeout_s = 500\n')
    monkeypatch.setenv("JAM_ENGINE", "variable")
    monkeypatch.setenv("JAM_LOG_LEVEL", "debug")
    monkeypatch.setenv("JAM_WHEEL_DIRECTORY", "")
    loaded = load_settings(tmp_path, os.environ, engine="option")
    shown = {row.name: (row.value, row.origin) for row in loaded.rows()}
    assert shown["home"] == (str(tmp_path), "command line")
    assert shown["engine"] == ("option", "command line")
    assert shown["log_level"] == ("debug", "JAM_LOG_LEVEL")
    assert shown["create_timeout_s"] == (500.0, str(tmp_path / "config.toml"))
    assert shown["wheel_directory"] == (None, "default")


@pytest.mark.guarantee("PLAN-1")
def test_limits_of_new_rooms_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words as on the command line; absent is no limit."""
    assert load_settings(tmp_path, {}).settings.resources() == Resources()
    (tmp_path / "config.toml").write_text('memory = "4G"\ncpus = 2\npids = 500\n')
    monkeypatch.setenv("JAM_PIDS", "400")
    wanted = Resources(memory_bytes=4 << 30, cpus=2.0, processes=400)
    assert load_settings(tmp_path, os.environ).settings.resources() == wanted


@pytest.mark.parametrize(
    ("content", "option"),
    [
        ("colour = 1", "colour"),
        ("log_level = 'loud'", "log_level"),
        ("create_timeout_s = 'long'", "create_timeout_s"),
        ("home = '/x'", "home"),
        ("engine = [", "(the whole file)"),
        ("engine = '" + "e" * 33 + "'", "engine"),
        ("read_timeout_s = 0", "read_timeout_s"),
        ("memory = 'lots'", "memory"),
        ("cpus = 0", "cpus"),
        ("pids = 3", "pids"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, content: str, option: str) -> None:
    """The error names the option and the file."""
    (tmp_path / "config.toml").write_text(content)
    with pytest.raises(SettingsInvalidError) as refused:
        load_settings(tmp_path, {})
    assert refused.value.option == option
    assert refused.value.origin == str(tmp_path / "config.toml")


@pytest.mark.guarantee("START-4")
@pytest.mark.parametrize(
    ("variable", "value", "option"),
    [
        ("JAM_FORCED_EXIT_S", "30", "forced_exit_s"),
        ("JAM_FINALISE_TIMEOUT_S", "45", "forced_exit_s"),
        ("JAM_CREATE_TIMEOUT_S", "630", "prepare_timeout_s"),
        ("JAM_NETWORK_CHECK_S", "11.9", "network_check_s"),
    ],
)
def test_limits_out_of_order_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, option: str
) -> None:
    """Forced exit > finalisation, preparation > create, network check >= 12 s."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsInvalidError) as refused:
        load_settings(tmp_path, os.environ)
    assert refused.value.option == option


def test_a_password_in_a_url_is_masked(tmp_path: Path) -> None:
    """What `jam config show` prints may end in a bug report."""
    loaded = load_settings(tmp_path, {}, database_url="postgresql+psycopg://jam:hunter2@db/jam")
    assert {row.name: row.value for row in loaded.rows()}["database_url"] == "postgresql+psycopg://jam:***@db/jam"
    assert loaded.settings.database_url is not None
    assert "hunter2" in loaded.settings.database_url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://jam:hunter2/Tail@db/jam",
        "postgresql://jam:hunter2@Tail@db/jam",
        "postgresql://:hunter2Tail@db/jam",
        "postgresql://db/jam?user=jam&password=hunter2Tail",
        "postgresql://db/jam?sslpassword=hunter2Tail&x=1",
    ],
)
def test_no_part_of_a_password_is_shown(tmp_path: Path, url: str) -> None:
    """Also where its own characters look like the end of it, and where it is an option of the URL."""
    shown = str({row.name: row.value for row in load_settings(tmp_path, {}, database_url=url).rows()}["database_url"])
    assert "***" in shown
    assert "hunter2" not in shown
    assert "Tail" not in shown


TABLE = '[providers.other]\nfamily = "made"\nargv = ["program", "--serve"]\nenvironment = { NAME = "value" }\n'


def test_providers_are_tables_of_the_file(tmp_path: Path) -> None:
    """The family's own keys are kept as they are; what is shown is which providers there are."""
    (tmp_path / "config.toml").write_text(TABLE)
    loaded = load_settings(tmp_path, {})
    assert loaded.settings.providers == {
        "other": {"family": "made", "argv": ["program", "--serve"], "environment": {"NAME": "value"}}
    }
    shown = {row.name: (row.value, row.origin) for row in loaded.rows()}
    assert shown["providers"] == ("other (made)", str(tmp_path / "config.toml"))


def test_what_holds_no_tables_names_its_key(tmp_path: Path) -> None:
    """Nothing starts with it, for there is no entry that could be disabled alone; the message says where to look."""
    (tmp_path / "config.toml").write_text("providers = 7\n")
    with pytest.raises(SettingsInvalidError) as caught:
        load_settings(tmp_path, {})
    assert caught.value.option == "providers"
    assert "valid dictionary" in caught.value.problem
    assert caught.value.origin == str(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[providers.'bad name!']\nfamily = 'x'\n", "bad name! (x)"),
        ("[providers.other]\nargv = ['x']\n", "other (no family)"),
        ("[providers.other]\nfamily = 7\n", "other (7)"),
        ("[providers]\nother = 7\n", "other (no table)"),
        ("[providers.other]\nfamily = 'x'\nsince = 2026-01-01\n", "other (x)"),
    ],
    ids=["a bad name", "no family", "no text", "no table", "a date"],
)
def test_a_bad_table_keeps_nothing_from_starting(tmp_path: Path, text: str, shown: str) -> None:
    """It disables its own provider alone, where it is made (PLUG-1)."""
    (tmp_path / "config.toml").write_text(text)
    assert {row.name: row.value for row in load_settings(tmp_path, {}).rows()}["providers"] == shown


def test_the_variable_of_the_providers_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no JSON is a typed error like every other wrong value."""
    monkeypatch.setenv("JAM_PROVIDERS", '{"other": {"family": "made"}}')
    assert load_settings(tmp_path, os.environ).settings.providers == {"other": {"family": "made"}}
    monkeypatch.setenv("JAM_PROVIDERS", "{")
    with pytest.raises(SettingsInvalidError, match="no JSON"):
        load_settings(tmp_path, os.environ)
