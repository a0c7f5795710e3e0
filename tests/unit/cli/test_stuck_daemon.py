"""A daemon that is stuck, or does not end: said by name, waited for within a bound, and ended by force where a person wants it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.cli.exits import Exit
from jamcore.cli.main import run
from jamcore.control.client import JamClient
from jamcore.control.failures import NoAnswerError
from jamcore.control.reach import Reach
from jamcore.domain.requests import RoomRequest, TurnRequest
from jamcore.system.ids import SystemIds

if TYPE_CHECKING:
    pass
from jamcore.testing.jam_program import fake_running, program

pytestmark = pytest.mark.unprivileged


def test_a_daemon_that_does_not_answer_is_named_and_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which process it is and how to end it; by force it ends although it is stopped."""
    monkeypatch.setattr("jamcore.control.client.QUESTION_S", 0.5)
    monkeypatch.setattr("jamcore.cli.commands.daemon_stop.TERM_S", 0.2)
    tmp_path.chmod(0o700)
    with fake_running(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        for words in (["ls"], ["run", "codex", "x"], ["room", "new", "codex"], ["daemon", "stop"]):
            assert run([*words, "--app-directory", str(tmp_path)]) == Exit.UNREACHABLE
            said = capsys.readouterr().err
            assert f"pid: {process.pid}" in said
            assert "`jam daemon stop --force`" in said
        assert run(["daemon", "stop", "--force", "--app-directory", str(tmp_path)]) == Exit.OK
        assert process.wait(0.5) == -signal.SIGKILL
    assert run(["daemon", "stop", "--force", "--app-directory", str(tmp_path)]) == Exit.OK
    assert "was not running" in capsys.readouterr().out


@pytest.mark.anyio
@pytest.mark.guarantee("CTRL-4")
async def test_a_stream_of_a_daemon_that_got_stuck_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it began and in its middle: nobody watches a room for ever whose daemon does not even send its heartbeat."""
    monkeypatch.setattr("jamcore.control.client.QUESTION_S", 0.5)
    monkeypatch.setattr("jamcore.control.client.SILENCE_S", 0.5)
    tmp_path.chmod(0o700)
    with fake_running(tmp_path) as process:
        client = JamClient(Reach(tmp_path, environ={}))
        request = RoomRequest(id=SystemIds().uuid(), provider="codex")
        room = str((await client.create_room(request)).room.id)
        await client.say(room, TurnRequest(id=SystemIds().uuid(), text="hi"))
        seen: list[int] = []

        async def watch() -> None:
            async for event in client.events(room):
                seen.append(event.seq)
                process.send_signal(signal.SIGSTOP)

        with pytest.raises(NoAnswerError) as stuck:
            await watch()
        assert seen
        assert stuck.value.pid == str(process.pid)
        for follow in (True, False):
            with pytest.raises(NoAnswerError):
                await anext(client.events(room, follow=follow))
        process.send_signal(signal.SIGCONT)
        assert [event async for event in client.events(room, follow=False)]


def test_force_asks_first(tmp_path: Path) -> None:
    """A daemon that can end by itself does."""
    tmp_path.chmod(0o700)
    with fake_running(tmp_path) as process:
        assert program(tmp_path, "daemon", "stop", "--force").out == "The daemon has ended.\n"
        assert process.wait(0.5) == 0


def test_force_hits_no_other_process(tmp_path: Path) -> None:
    """An address that names another process, while the daemon listens and after it has gone."""
    tmp_path.chmod(0o700)
    record = tmp_path / "daemon.json"
    with subprocess.Popen(["/bin/sleep", "60"]) as bystander:
        try:
            with fake_running(tmp_path) as process:
                forged = json.dumps({**json.loads(record.read_bytes()), "pid": bystander.pid})
                record.write_text(forged)
                refused = program(tmp_path, "daemon", "stop", "--force")
                assert refused.status == Exit.UNREACHABLE
                assert "who listens is not process" in refused.err
                assert process.poll() is None
            record.write_text(forged)
            assert program(tmp_path, "daemon", "stop", "--force").out == "The daemon was not running.\n"
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_the_daemon_is_stopped_and_waited_for(tmp_path: Path) -> None:
    """After the command the process has ended; stopping it again is fine; status 5 says that it does not run."""
    tmp_path.chmod(0o700)
    with fake_running(tmp_path) as process:
        stopped = program(tmp_path, "daemon", "stop")
        assert (stopped.status, stopped.out) == (0, "The daemon has ended.\n")
        assert process.wait(0.5) == 0
        assert program(tmp_path, "daemon", "stop", "--json").json == {"stopped": False, "running": False}
        gone = program(tmp_path, "daemon", "status")
        assert gone.status == Exit.UNREACHABLE
        assert "daemon.not_running" in gone.err
        assert program(tmp_path, "daemon", "status", "--json").json["running"] is False


def test_a_release_that_cannot_say_what_it_does_is_not_taken_for_idle(tmp_path: Path) -> None:
    """It is neither replaced nor restarted without a word; with --now it is, and its end is waited for."""
    tmp_path.chmod(0o700)
    record = tmp_path / "daemon.json"
    (tmp_path / "says-nothing").touch()
    with fake_running(tmp_path) as process:
        record.write_text(json.dumps({**json.loads(record.read_bytes()), "version": "0.0.1"}))
        for words in (("ls",), ("daemon", "restart")):
            refused = program(tmp_path, *words, "--json").json["error"]
            assert refused["code"] == "daemon.older_busy", words
            assert refused["context"]["working"].startswith("unknown")
            assert "--now" in refused["hint"]
        assert "unknown" in program(tmp_path, "daemon", "status").out
        assert process.poll() is None
        try:
            restarted = program(tmp_path, "daemon", "restart", "--now", "--json")
            assert restarted.status == Exit.OK, restarted
            assert restarted.json["stopped"] is True
            assert process.wait(0.5) == 0
        finally:
            program(tmp_path, "daemon", "stop")


def test_a_restart_waits_for_what_runs(tmp_path: Path) -> None:
    """It says what that is, goes on waiting while it changes, and restarts when nothing is left."""
    tmp_path.chmod(0o700)
    working = tmp_path / "working"
    working.write_text("a turn in the room one\n")
    environment = {**os.environ, "JAM_HOME": str(tmp_path)}
    argv = (sys.executable, "-m", "jamcore.cli.main", "daemon", "restart")
    with fake_running(tmp_path) as process:
        try:
            with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as restart:
                assert restart.stderr is not None
                assert "Ctrl-C leaves it as it is" in restart.stderr.readline()
                assert restart.stderr.readline() == "waiting for: a turn in the room one\n"
                replacing = tmp_path / "next"
                replacing.write_text("install the program of codex\n")
                replacing.rename(working)
                assert restart.stderr.readline() == "waiting for: install the program of codex\n"
                assert process.poll() is None
                working.unlink()
                out, _ = restart.communicate(timeout=60)
                assert restart.returncode == Exit.OK
            assert out.startswith("The daemon runs: version ")
            assert process.wait(0.5) == 0
        finally:
            program(tmp_path, "daemon", "stop")
