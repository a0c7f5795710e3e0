"""Every command against a running daemon: what it prints and how it ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.cli.exits import Exit

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Jam

Stdin = Callable[[str], None]
CLI_PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Stdin:
    """Pipe a text in."""

    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return give


def test_rooms_for_people_and_programs(jam: Jam, room: str) -> None:
    """A row per room with its state; the same records as JSON."""
    (row,) = [line.split("\t") for line in jam("ls").out.splitlines() if line.startswith(room)]
    assert row[2:5] == ["codex", "bubblewrap", "live"]
    assert row[6:] == ["-", "-"]
    (found,) = [each for each in jam("room", "ls", "--json").json if each["room"]["name"] == room]
    assert found["host"]["engine"] == "bubblewrap"


def test_what_is_new_is_shown_and_can_be_chosen(jam: Jam, tmp_path: Path) -> None:
    """Every choice of the command line reaches the request; a repository is found from within it."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "päth with\nnewline").mkdir()
    made = jam(
        "room", "new", "codex", "--name", "chosen", "--repo", str(tmp_path / "repo" / "päth with\nnewline"), "--engine", "local",
        "--model", "m1", "--endpoint", "http://127.0.0.1:9", "--endpoint-credential", "k", "--allow-dirty", "--json",
    ).json  # fmt: skip
    assert made["workspace"]["path"] == str(tmp_path / "repo")
    assert made["host"]["cell"]["workspace"] == "private-host-clone"
    assert (made["host"]["engine"], made["session"]["model"]) == ("local", "m1")
    direct = jam("room", "new", "codex", "--direct", str(tmp_path), "--placement", "shared", "--json").json
    assert direct["host"]["cell"] == {"configuration": "jam-managed", "workspace": "direct-host", "placement": "shared"}


def test_limits_are_words_of_the_command_line(jam: Jam) -> None:
    """A limit that is none is refused by its name before anything is asked; a good one is part of the room's request."""
    refused = jam("room", "new", "codex", "--memory", "lots")
    assert refused.status == Exit.REFUSED
    assert "memory" in refused.err
    refused = jam("run", "codex", "do it", "--pids", "1")
    assert refused.status == Exit.REFUSED
    assert "pids" in refused.err
    limits = ("--cpus", "1.5", "--memory", "4G", "--memory-per-process", "2G", "--pids", "400", "--disk", "10G")
    made = jam("room", "new", "codex", *limits, "--json").json
    asked = {"cpus": 1.5, "memory_bytes": 4 << 30, "memory_per_process_bytes": 2 << 30, "processes": 400, "disk_bytes": 10 << 30}
    assert json.loads(made["host"]["plan_json"]) == {"resources": asked}
    shown = jam("room", "show", made["room"]["name"]).out
    assert "cpus 1.5, memory 4G, memory-per-process 2G, pids 400, disk 10G" in shown


def test_an_answer_goes_to_standard_output_alone(jam: Jam, room: str) -> None:
    """What the agent does beside it goes to standard error, commands cut to their end."""
    said = jam("say", room, "hello", "there")
    assert said.status == Exit.OK
    assert said.out == "echo: hello there\n"
    assert "$ ls -l" in said.err
    assert "… 32 lines before" in said.err
    assert "line 39" in said.err
    assert "line 31" not in said.err
    assert "exit status 1" in said.err
    assert "~ src/app.py" in said.err


def test_a_turn_as_json_lines(jam: Jam, room: str) -> None:
    """Each event as it happens, and the turn's record at the end."""
    said = jam("room", "say", room, "hi", "--json")
    *events, last = said.lines
    assert [line["event"]["seq"] for line in events] == list(range(1, 13))
    assert last["turn"]["state"] == "captured"
    assert said.err == ""


def test_a_message_can_be_piped_in(jam: Jam, room: str, stdin: Stdin) -> None:
    """Also of several lines."""
    stdin("one\ntwo")
    assert jam("say", room).out == "echo: one\ntwo\n"
    stdin("three")
    assert jam("say", room, "-").out == "echo: three\n"
    stdin("   ")
    assert jam("say", room).status == Exit.REFUSED


def test_a_failed_turn_is_no_success(jam: Jam, room: str) -> None:
    """Its reason is said, then and whenever the room is shown, and the status is 1."""
    said = jam("say", room, "fail")
    assert said.status == Exit.NOT_WELL
    assert "the turn failed: limit reached (usage_limit)" in said.err
    assert "failed: limit reached" in jam("room", "show", room).err


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize("text", ["doubt", "parked"])
def test_a_turn_whose_agent_died_is_not_waited_for(jam: Jam, room: str, text: str) -> None:
    """It is said that its end is not known and what decides it; the status is 1; as JSON the last line is the turn."""
    said = jam("say", room, text)
    assert said.status == Exit.NOT_WELL
    assert f"ended in the middle of this turn. `jam room resume {room}` brings the conversation back" in said.err
    assert jam("say", room, text, "--json").lines[-1]["turn"]["state"] == "running"
    ran = jam("run", "codex", text)
    assert ran.status == Exit.NOT_WELL
    assert "ended in the middle of this turn" in ran.err
    assert jam("run", "codex", text, "--json").lines[-1]["run"]["change"] is None


def test_work_can_be_handed_in_without_waiting(jam: Jam, room: str) -> None:
    """--detach returns the id at once, for a turn and for a run."""
    UUID(jam("say", room, "wait", "--detach").out.strip())
    assert jam("room", "show", room, "--json").json["turns"][0]["state"] in {"accepted", "running"}
    assert jam("room", "interrupt", room).status == Exit.OK
    UUID(jam("run", "codex", "wait", "--detach").out.strip())
    assert jam("run", "codex", "wait", "--detach", "--json").json["turn"]["text"] == "wait"


def test_a_run_ends_in_a_change_request(jam: Jam) -> None:
    """The files, what to look at twice, and how to go on; the same as data."""
    ran = jam("run", "codex", "do it")
    assert ran.status == Exit.OK
    assert "objective: do it" in ran.out
    assert ".github/workflows/ci.yml   ! ci-definition" in ran.out
    assert "jam change show " in ran.err
    *events, last = jam("run", "codex", "do it", "--json").lines
    assert {line["event"]["payload"]["kind"] for line in events} >= {"user.said", "message", "turn.ended"}
    assert last["run"]["change"]["paths"][1]["flags"] == ["ci-definition"]


def test_a_run_without_a_change_request_says_so(jam: Jam) -> None:
    """It does not wait for what the daemon has given up."""
    ran = jam("run", "codex", "fail")
    assert ran.status == Exit.NOT_WELL
    assert "There is no change request" in ran.err
    assert jam("run", "codex", "fail", "--json").lines[-1]["run"]["change"] is None


def test_change_requests(jam: Jam, room: str) -> None:
    """Made, listed and shown; the patch is escaped and its file named."""
    made = jam("change", "new", room, "--json").json["id"]
    assert made[:13] in jam("change", "ls").out
    assert made in [each["id"] for each in jam("change", "ls", "--json").json]
    shown = jam("change", "show", made)
    assert "+\\x1b[2Jnew" in shown.out
    assert "Files: /x" in shown.err
    assert "+++ b" not in jam("change", "show", made, "--no-patch").out
    assert jam("change", "show", made, "--json").json["patch"].startswith("---")


def test_checkpoints_are_looked_at(jam: Jam, room: str) -> None:
    """Listed, shown, verified, compared; a damaged one ends with a status of its own; names steer no terminal."""
    (row,) = [line.split("\t") for line in jam("checkpoint", "ls", room).out.splitlines()]
    assert row[0] == "2"
    columns = jam("checkpoint", "ls", room).err
    assert [word for word in ("BYTES", "WRITTEN", f"jam checkpoint rm --room {room}\n") if word not in columns] == []
    shown = jam("checkpoint", "show", row[1])
    assert "0600\tfile\t4096\thome/sessions/a\\x1b[2J.jsonl" in shown.out
    assert "1 more" in shown.err
    assert jam("checkpoint", "verify", row[1]).status == Exit.OK
    damaged = jam("checkpoint", "verify", "bad-one")
    assert damaged.status == Exit.NOT_WELL
    assert "its pack is gone \\x1b[2J" in damaged.out
    assert "jam continuity inspect ROOM" not in damaged.err, "the name of a room of its sandbox"
    assert jam("checkpoint", "verify", "bad-one", "--json").json["sound"] is False
    assert [line[0] for line in jam("checkpoint", "diff", row[1], row[1]).out.splitlines()] == ["+", "~"]
    assert jam("checkpoint", "show", "nobody").status == Exit.REFUSED


def test_sandboxes_and_proofs_are_listed(jam: Jam) -> None:
    """Each with its standing, foreign ones counted, a silent engine named; what a record says cannot steer the terminal."""
    said = jam("host", "ls")
    assert "jam-1\tbubblewrap\tabsent\torphan-owner-marker\tno\\x1b[2J host" in said.out
    assert "2 more belong to somebody else" in said.err
    assert "3 more are of other daemons on this database, each of which lists its own." in said.err
    assert "docker did not answer" in said.err
    assert jam("host", "ls", "--json").json["foreign"] == 2


def test_a_change_request_is_judged(jam: Jam, room: str) -> None:
    """The digest of the patch that was shown goes with the verdict; lists and `show` say what became of it."""
    made = jam("change", "new", room, "--json").json["id"]
    assert "jam change accept" in jam("change", "show", made).err
    accepted = jam("change", "accept", made, "--branch", "fix/x", "--author", "A B <a@b>", "--allow-moved", "--json").json
    shown = jam("change", "show", made, "--json").json
    patch = next(file["sha256"] for file in shown["change"]["files"] if file["name"] == "change.patch")
    assert (accepted["branch"], accepted["patch_sha256"]) == ("fix/x", patch)
    (row,) = [each for each in jam("change", "ls", "--json").json if each["id"] == made]
    assert row["decision"] == accepted
    assert "accepted" in jam("change", "ls").out


def test_a_rejection_needs_its_reason(jam: Jam, room: str) -> None:
    """Without a reason nothing is asked of the daemon; with one the agent is told, unless it is not wanted."""
    made = jam("change", "new", room, "--json").json["id"]
    assert jam("change", "reject", made).status == Exit.USAGE
    quiet = jam("change", "reject", made, "--why", "tabs \x1b[2J, please", "--quietly", "--json").json
    assert (quiet["verdict"], quiet["turn_id"], quiet["reason"]) == ("rejected", None, "tabs \x1b[2J, please")
    assert "jam attach" in jam("change", "reject", jam("change", "new", room, "--json").json["id"], "--why", "no").err


@pytest.mark.parametrize(
    "words",
    [
        ("change", "accept", "{change}", "--branch", ""),
        ("change", "accept", "{change}", "--branch", "x" * 1000),
        ("change", "accept", "{change}", "--patch-sha256", "0"),
        ("change", "reject", "{change}", "--why", ""),
        ("change", "reject", "{change}", "--why", "x" * 100_000),
    ],
)
def test_words_that_no_request_holds_are_refused_by_their_name(jam: Jam, room: str, words: tuple[str, ...]) -> None:
    """Empty, too long, no digest: a refusal that names the option, never a traceback, and the change request is not judged."""
    made = jam("change", "new", room, "--json").json["id"]
    refused = jam(*(word.format(change=made) for word in words), "--json")
    assert refused.status == Exit.REFUSED
    assert refused.json["error"]["code"] == "input.invalid"
    assert refused.json["error"]["context"]["field"] in {"branch", "patch_sha256", "reason"}
    assert all(each["decision"] is None for each in jam("change", "ls", "--json").json if each["id"] == made)


def test_a_room_is_parked_and_brought_back(jam: Jam, room: str) -> None:
    """With the checkpoint that was made, and the state afterwards."""
    assert jam("room", "stop", room).out == f"{room}: parked, generation 2\n"
    assert "parked" in jam("ls").out
    assert jam("room", "stop", room, "--json").json["outcome"] == "already-parked"
    assert "state\tlive" in jam("room", "resume", room).out


def test_a_conversation_that_cannot_come_back_is_refused(jam: Jam) -> None:
    """The daemon's typed reason, its context and its hint; status 3; the same as JSON."""
    jam("room", "new", "codex", "--name", "lost")
    refused = jam("room", "resume", "lost")
    assert refused.status == Exit.REFUSED
    assert "jam: The exact conversation cannot be brought back, so nothing was started (continuity.refused)" in refused.err
    assert "  failure: corrupt" in refused.err
    assert "how to go on with a new conversation: jam continuity inspect lost\n" in refused.err
    shown = [line[4:] for line in CLI_PAGE.read_text().splitlines() if line.startswith(("    jam: ", "      "))]
    assert [line.partition(":")[0] for line in refused.err.splitlines()[1:]] == [line.partition(":")[0] for line in shown]
    assert (shown[0], shown[-1]) == (refused.err.splitlines()[1], refused.err.splitlines()[-1]), "as its page says"
    error = jam("room", "resume", "lost", "--json").json["error"]
    assert (error["code"], error["context"]["failure"]) == ("continuity.refused", "corrupt")


def test_the_evidence(jam: Jam, room: str) -> None:
    """The decision that would be taken, checkpoints, resumes and turns."""
    shown = jam("session", "inspect", room)
    assert "Its last start was decided to be: an exact resume" in shown.out
    assert "What would be decided now: jam continuity inspect" in shown.err
    assert "succeeded\tgeneration\tthread-1\tthread-1" in shown.out
    assert jam("session", "inspect", room, "--json").json["checkpoints"][0]["generation"] == 2


@pytest.mark.guarantee("CONT-7", "SEC-3")
def test_the_evidence_of_a_refusal_names_its_kind(jam: Jam) -> None:
    """Damaged is not missing, though one outcome stands for both; what was not done yet has no heading."""
    jam("room", "new", "codex", "--name", "lost-too")
    shown = jam("session", "inspect", "lost-too").out
    assert "Its last start was refused: the last checkpoint is damaged (corrupt)\na block of it is damaged \\x1b[2J\n" in shown
    assert "Resumes" not in shown


@pytest.mark.guarantee("WS-9")
def test_the_evidence_tells_removed_checkpoints_from_whole_ones(jam: Jam) -> None:
    """Newest first, each with what keeps it or that it went."""
    jam("room", "new", "codex", "--name", "many-seen")
    rows = [line.split("\t") for line in jam("session", "inspect", "many-seen").out.splitlines() if "\tbefore-stop\t" in line]
    assert [(row[0], row[-1].split(" on ")[0]) for row in rows] == [("2", "newest"), ("1", ""), ("0", "payload removed")]


def test_the_doctor(jam: Jam) -> None:
    """Each gap with what to do; status 1 when no agent can run."""
    found = jam("doctor")
    assert found.status == Exit.NOT_WELL
    assert "ok   engine bubblewrap: version 0.11" in found.out
    assert "gap  credential openai: absent\n     → Run `jam credential set openai`." in found.out
    assert jam("doctor", "--json").json["healthy"] is False


def test_providers(jam: Jam) -> None:
    """Listed with what is wrong, installed, and refused by name."""
    listed = jam("providers", "ls")
    assert "codex\tCodex\tjam-codex 0.1.0\tloaded\t0.163.0\tyes" in listed.out
    assert "broken: no module named x" in listed.err
    assert len(jam("provider", "ls", "--json").json) == 2
    assert "codex\tshared\tjam-managed\tmanaged\tnone here" in jam("provider", "cells").out
    assert len(jam("providers", "cells", "--json").json) == 2
    assert "codex 0.163.0: installed" in jam("provider", "install", "codex").out
    assert jam("provider", "install", "codex", "--json").json["already"] is False
    assert jam("provider", "install", "x" * 300).status == Exit.REFUSED


@pytest.mark.guarantee("ENV-4")
def test_a_credential_is_piped_in_and_never_shown(jam: Jam, stdin: Stdin) -> None:
    """Its value appears nowhere; there is no option that would take it."""
    stdin("sk-verysecret\n")
    kept = jam("credential", "set", "openai")
    assert kept.out == "openai: kept (kept)\n"
    listed = jam("credential", "ls", "--json")
    assert "openai" in [row["name"] for row in listed.json]
    assert "verysecret" not in kept.out + kept.err + listed.out
    assert jam("credential", "forget", "openai", "--json").json == {"forgotten": "openai"}
    assert jam("credential", "forget", "openai").status == Exit.REFUSED
    stdin("\n")
    assert jam("credential", "set", "openai").status == Exit.REFUSED


def test_settings_with_their_origin(jam: Jam, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value, origin and meaning of each; a wrong one is refused by name."""
    shown = jam("config", "show", "--json").json
    assert shown["home"]["origin"] == "JAM_HOME"
    assert shown["home"]["value"] == str(home)
    assert jam("config", "show", "--app-directory", str(home), "--json").json["home"]["origin"] == "command line"
    assert "engine\t-\tdefault\t" in jam("config", "show").out
    monkeypatch.setenv("JAM_LOG_LEVEL", "loud")
    refused = jam("config", "show")
    assert refused.status == Exit.REFUSED
    assert "origin: JAM_LOG_LEVEL" in refused.err


def test_the_daemons_state_and_log(jam: Jam, home: Path) -> None:
    """Who answers, and the end of its log with nothing in it that steers a terminal."""
    assert "running\tyes" in jam("daemon", "status").out
    assert jam("daemon", "status", "--json").json["health"]["daemon_id"] == str(UUID(int=7))
    assert "The daemon runs" in jam("daemon", "start").out
    assert "no log yet" in jam("daemon", "logs").err
    (home / "jamd.log").write_bytes(b"one\ntwo \x1b[2J\xff\nthree\n")
    assert jam("daemon", "logs", "-n", "2").out == "two \\x1b[2J\ufffd\nthree\n"
    assert jam("daemon", "logs", "-n", "1", "--json").json == {"line": "three"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("room", "new", "codex", "--name", "ROOM"), "hint: Choose another name"),
        (("room", "new", "codex", "--endpoint", "http://127.0.0.1:9/v1"), "leave the path off: scheme://host[:port]"),
        (("run", "codex", "x", "--endpoint", "https://example.org/"), "leave the path off: scheme://host[:port]"),
        (("run", "codex", " "), "say what to do, in your words"),
        (("provider", "install", "absent"), "hint: Run `jam provider install absent`."),
    ],
)
def test_a_refusal_says_what_to_type_instead(jam: Jam, room: str, words: tuple[str, ...], said: str) -> None:
    """In the words of the command line, with the names in question; the same as JSON."""
    words = tuple(room if word == "ROOM" else word for word in words)
    refused = jam(*words)
    assert refused.status == Exit.REFUSED
    assert said in refused.err
    assert said.removeprefix("hint: ") in jam(*words, "--json").out


@pytest.mark.parametrize("words", [("room", "new"), ("run",)])
def test_an_agent_that_is_not_there_is_no_sandbox_that_starts(jam: Jam, words: tuple[str, ...]) -> None:
    """A name that is close to another names that one, any other where the names are; nothing is said to start."""
    close, far = (jam(*words, name, *(["x"] if words == ("run",) else [])) for name in ("codx", "quite-another"))
    assert "hint: Did you mean `codex`? `jam provider ls` lists the agents." in close.err
    assert "Did you mean" not in far.err
    assert "starting" not in close.err + far.err


def test_what_had_nothing_to_do_says_so(jam: Jam, room: str) -> None:
    """Interrupting where nothing runs, parking what is parked."""
    assert jam("room", "interrupt", room).out == f"{room}: nothing was running (live)\n"
    jam("say", room, "wait", "--detach")
    assert "nothing" not in jam("room", "interrupt", room).out
    jam("room", "stop", room)
    assert jam("room", "stop", room).out == f"{room}: was parked already, generation 2\n"


@pytest.mark.parametrize(
    "words",
    [
        ("room", "show", "nobody"),
        ("room", "stop", "nobody"),
        ("room", "interrupt", "nobody"),
        ("say", "nobody", "hi"),
        ("attach", "nobody", "--watch"),
        ("session", "inspect", "nobody"),
        ("change", "show", "nobody"),
        ("change", "new", "nobody"),
        ("run", "nobody", "do it"),
        ("room", "new", "codex", "--engine", "weak"),
        ("room", "new", "codex", "--repo", ".", "--direct", "."),
        ("room", "new", "codex", "--endpoint-credential", "k"),
    ],
)
def test_a_refusal_has_a_code_a_reason_and_a_hint(jam: Jam, words: tuple[str, ...]) -> None:
    """For people on standard error, for programs as one document on standard output, always with status 3."""
    refused = jam(*words)
    assert refused.status == Exit.REFUSED
    assert refused.out == ""
    assert "jam: " in refused.err
    assert "  hint: " in refused.err
    as_json = jam(*words, "--json")
    assert as_json.status == Exit.REFUSED
    assert set(as_json.json["error"]) == {"code", "message", "context", "hint"}
    assert as_json.err == ""


@pytest.mark.parametrize(
    ("version", "code", "word"),
    [
        ("0.0.1", "daemon.older_busy", "jam daemon restart"),
        ("99.0", "daemon.newer", "Upgrade this command"),
        ("not a release", "daemon.other_version", "jam daemon stop"),
    ],
)
def test_a_daemon_of_another_version(jam: Jam, home: Path, version: str, code: str, word: str) -> None:
    """One that works, a newer one and one of no known age are left as they are, with what to do; who they are can be asked."""
    record = home / "daemon.json"
    written = record.read_bytes()
    (home / "working").write_text("a turn in the room busy\n")
    try:
        record.write_text(json.dumps({**json.loads(written), "version": version}))
        for words in (("ls",), ("daemon", "start"), ("say", "room", "hi")):
            refused = jam(*words)
            assert refused.status == Exit.UNREACHABLE, refused
            assert code in refused.err
            assert f"daemon: {version}" in refused.err
            assert word in refused.err
            assert ("a turn in the room busy" in refused.err) == (version == "0.0.1")
        if version != "0.0.1":
            assert code in jam("daemon", "restart", "--now").err
        assert jam("daemon", "status").status == Exit.OK
    finally:
        record.write_bytes(written)
        (home / "working").unlink()
    assert jam("ls").status == Exit.OK


def test_a_daemon_that_works_is_restarted_only_when_it_is_idle(jam: Jam, home: Path) -> None:
    """What it works on is said; after the wait it goes on as it was."""
    (home / "working").write_text("a turn in the room one\ninstall the program of codex\n")
    try:
        pid = jam("daemon", "status", "--json").json["health"]["pid"]
        refused = jam("daemon", "restart", "--wait", "0")
        assert refused.status == Exit.UNREACHABLE
        assert "(daemon.busy)" in refused.err
        assert "a turn in the room one; install the program of codex" in refused.err
        told = jam("daemon", "status").out
        assert "a turn in the room one" in told
        status = jam("daemon", "status", "--json").json
        assert status["health"]["pid"] == pid
        assert status["health"]["activity"]["working"] == ["a turn in the room one", "install the program of codex"]
        assert status["uptime_s"] > 0
    finally:
        (home / "working").unlink()
