"""A daemon that cannot start, and one that starts in spite of damage: what `jam` says, and that nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from jamcore.cli.exits import Exit
from jamcore.daemon.identity import NAME
from jamcore.domain import layout
from jamcore.domain.cells import Cell, Configuration, Placement, WorkspaceSource
from jamcore.store.migrate import HEAD, SCRIPTS
from jamcore.testing.jam_program import Done, program

Jam = Callable[..., Done]
AT = "2026-01-02T03:04:05.678901+00:00"
CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.MANAGED, placement=Placement.DEDICATED)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Private places for what the daemon puts outside its app directory."""
    private = tmp_path_factory.mktemp("private")
    private.chmod(0o700)
    return {"XDG_RUNTIME_DIR": str(private), "TMPDIR": str(private)}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, places: Mapping[str, str]) -> Path:
    """An app directory that a real daemon made and left in order."""
    app = tmp_path_factory.mktemp("used") / "app"
    assert program(app, "daemon", "start", env=places).status == Exit.OK
    assert program(app, "daemon", "stop", env=places).status == Exit.OK
    return app


@pytest.fixture
def app(used: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(used, tmp_path / "app"))


@pytest.fixture
def jam(app: Path, places: Mapping[str, str]) -> Iterator[Jam]:
    """Run ``jam`` on it; in the end no daemon runs there."""

    def call(*words: str) -> Done:
        return program(app, *words, env=places)

    yield call
    call("daemon", "stop")


def no_database(app: Path) -> None:
    """Something else lies where the database was."""
    (app / layout.DATABASE).write_bytes(b"this was a database once\n" * 400)


def bad_pages(app: Path) -> None:
    """The head is right, and the rest is not."""
    with (app / layout.DATABASE).open("r+b") as stream:
        stream.seek(100)
        stream.write(os.urandom(16_000))


def newer_schema(app: Path) -> None:
    """A newer Jam was here."""
    with closing(sqlite3.connect(app / layout.DATABASE)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")


def bad_identity(app: Path) -> None:
    """The daemon's id is half written."""
    (app / NAME).write_text("0123")


def bad_settings(app: Path) -> None:
    """A hand was at the settings."""
    (app / "config.toml").write_text("engine = [\n")


@pytest.mark.guarantee("START-1", "CTRL-3")
@pytest.mark.parametrize(
    ("damage", "code", "subject"),
    [
        (no_database, "store.unusable", "database"),
        (bad_pages, "store.unusable", "database"),
        (newer_schema, "store.newer_schema", None),
        (bad_identity, "daemon.app_directory", None),
        (bad_settings, "settings.invalid", "settings"),
    ],
)
def test_a_daemon_that_cannot_start_says_why(
    app: Path, jam: Jam, damage: Callable[[Path], None], code: str, subject: str | None
) -> None:
    """Each command has the reason and what to do; the doctor says what can be seen; every byte stays, and once mended it starts."""
    kept = {path: path.read_bytes() for path in (app / layout.DATABASE, app / NAME)}
    damage(app)
    damaged = {path: path.read_bytes() for path in (*kept, app / "config.toml") if path.exists()}
    listed = jam("ls")
    assert listed.status == Exit.UNREACHABLE, listed
    assert "(daemon.start_failed)" in listed.err
    assert f"jamd: {code}: " in listed.err
    assert "jam doctor" in listed.err
    if damage is newer_schema:
        assert "found=0999" in listed.err
        assert f"known={HEAD}" in listed.err
    told = jam("doctor", "--json")
    assert told.status == Exit.NOT_WELL, told
    findings = {finding["subject"]: finding for finding in told.json["findings"]}
    assert code in findings["daemon"]["detail"]
    gaps = {name for name, finding in findings.items() if not finding["ok"]}
    assert gaps == {"daemon"} | ({subject} if subject else set()), findings
    assert all(finding["hint"] for finding in findings.values() if not finding["ok"])
    assert "jam daemon start" in jam("daemon", "status").err
    if code.startswith("store."):
        assert code in jam("daemon", "logs").out
    assert {path: path.read_bytes() for path in damaged} == damaged, "nothing is repaired or begun anew"
    for path, data in kept.items():
        path.write_bytes(data)
    (app / "config.toml").unlink(missing_ok=True)
    assert jam("ls").status == Exit.OK


@pytest.mark.guarantee("START-1", "OWN-6")
def test_damaged_markers_keep_no_daemon_from_starting(app: Path, jam: Jam) -> None:
    """A proof of ownership and a clean-up that were half written are named, and stay for whoever can read them."""
    halves = (app / layout.OWNERS / "jam-half.json", app / layout.pending_cleanup("jam-0123456789abcdef"))
    for half in halves:
        half.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        half.write_bytes(b'{"schema_version": 1, "pl')
    assert jam("ls").status == Exit.OK
    findings = jam("doctor").out
    assert "jam-0123456789abcdef" in findings
    assert "jam-half" in jam("host", "ls").out
    assert [half.read_bytes() for half in halves] == [b'{"schema_version": 1, "pl'] * 2


def first_release(path: Path, daemon: UUID, *, damaged: bool) -> None:
    """Write a database as the first schema had it, with a parked room, and another one whose host is damaged."""
    path.unlink(missing_ok=True)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("INSERT INTO daemons VALUES (?, 1)", (str(daemon),))
        agent = str(UUID(int=1))
        raw.execute("INSERT INTO agents VALUES (?, 'codex', 'codex', ?)", (agent, AT))
        for number, name in ((100, "kept"), (200, "damaged")) if damaged else ((100, "kept"),):
            host, session, room, binding, workspace = (str(UUID(int=number + n)) for n in range(5))
            cell = CELL.model_dump_json() if name == "kept" else "{half"
            values = (host, agent, "codex", "bubblewrap", cell, "dedicated", f"jam-{number}", "{}", "parked", str(daemon), 1, AT)
            raw.execute(f"INSERT INTO hosts VALUES ({', '.join('?' * len(values))})", values)
            raw.execute("INSERT INTO sessions VALUES (?, ?, ?, 'dormant', NULL, NULL, ?)", (session, host, agent, AT))
            raw.execute("INSERT INTO rooms VALUES (?, ?, ?, ?, ?)", (room, name, agent, "0" * 64, AT))
            raw.execute("INSERT INTO bindings VALUES (?, ?, ?, 1)", (binding, room, session))
            raw.execute(
                "INSERT INTO workspaces VALUES (?, ?, ?, 'managed', NULL, NULL, '/jam/work', 'ready', ?)",
                (workspace, session, host, AT),
            )


@pytest.mark.guarantee("START-1")
@pytest.mark.parametrize("damaged", [False, True])
def test_a_database_of_the_first_release_is_taken_over(app: Path, jam: Jam, damaged: bool) -> None:
    """Its rooms are listed, also beside a damaged one, which the doctor names; the copy from before can be read and opened."""
    first_release(app / layout.DATABASE, UUID((app / NAME).read_text().strip()), damaged=damaged)
    listed = jam("ls", "--json")
    assert listed.status == Exit.OK, listed
    assert [(row["room"]["name"], row["live"]) for row in listed.json] == [("kept", False)]
    assert (str(UUID(int=200)) in jam("doctor").out) == damaged
    copy = app / f"{layout.DATABASE}.before-0001"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        assert {name for (name,) in raw.execute("SELECT name FROM rooms")} == ({"kept", "damaged"} if damaged else {"kept"})
    assert jam("daemon", "stop").status == Exit.OK
    shutil.copy(copy, app / layout.DATABASE)
    assert [row["room"]["name"] for row in jam("ls", "--json").json] == ["kept"], (
        "the copy in its place is brought up like the first"
    )


@pytest.mark.guarantee("CTRL-2")
def test_a_port_is_opened_only_when_it_was_asked_for(app: Path, jam: Jam, free_tcp_port: int) -> None:
    """The setting opens it for who has the token; a port that is taken keeps the daemon from starting, and is said."""
    url = f"http://127.0.0.1:{free_tcp_port}/v1/health"
    assert jam("daemon", "start").status == Exit.OK
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
    assert jam("daemon", "stop").status == Exit.OK
    (app / "config.toml").write_text(f'listen_tcp = "{free_tcp_port}"\n')
    with socket.create_server(("127.0.0.1", free_tcp_port)):
        assert "control.tcp_unusable" in jam("daemon", "start").err
    assert jam("daemon", "start").status == Exit.OK
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, timeout=5)
    with refused.value:
        assert refused.value.code == 401
    token = (app / "cfg" / "control-token").read_text().strip()
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        assert json.load(answer)["app_directory"] == str(app)
