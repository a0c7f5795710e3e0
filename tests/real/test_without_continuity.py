"""An agent whose conversations end with its process: the smallest table that a person can write, in a real daemon."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jamcore.cli.exits import Exit
from jamcore.testing.jam_program import Done, program

pytestmark = [pytest.mark.needs("bubblewrap")]
README = Path(__file__).parents[2] / "plugins" / "acp" / "README.md"
Jam = Callable[..., Done]
ENDPOINT = ("--endpoint", "http://127.0.0.1:9")
"""Where nobody listens: the agent here asks no model."""
AGENT = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {}}
    elif asked["method"] == "session/new":
        result = {"sessionId": "s"}
    elif asked["method"] == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "answer"}}
        send(method="session/update", params={"sessionId": "s", "update": update})
        result = {"stopReason": "end_turn"}
    if "id" in asked:
        send(id=asked["id"], result=result)
"""


def smallest() -> dict[str, Any]:
    """Return the fewest keys of a table, as the page that people copy them from has them."""
    written = README.read_text().partition("    [providers.small]\n")[2].partition("\n\n")[0]
    return tomllib.loads(written)


def settings(table: dict[str, Any]) -> str:
    """Return the configuration file with this table."""
    values = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict))
    inner = "\n".join(f"{name} = {json.dumps(value)}" for name, value in table["environment"].items())
    return f"[providers.small]\n{values}\n[providers.small.environment]\n{inner}\n"


@pytest.fixture
def jam(tmp_path: Path) -> Iterator[Jam]:
    """Run ``jam`` with the table in its configuration file, and a program that is on every machine; in the end no daemon runs there."""
    app, private = tmp_path / "app", tmp_path / "private"
    private.mkdir(mode=0o700)
    app.mkdir(mode=0o700)
    (app / "config.toml").write_text(settings({**smallest(), "argv": ["python3", "-c", AGENT]}))
    places = {"XDG_RUNTIME_DIR": str(private), "TMPDIR": str(private)}

    def call(*words: str, typed: bytes = b"") -> Done:
        return program(app, *words, stdin=typed, env=places)

    yield call
    call("daemon", "stop")


@pytest.mark.guarantee("CONT-1", "PLUG-2")
def test_the_smallest_table_carries_a_room_until_its_process_ends(jam: Jam) -> None:
    """It talks at once and again; stopped, it is refused by type with nothing begun instead, and what is known of it can be looked at."""
    assert jam("room", "new", "small", "--name", "r", *ENDPOINT).status == Exit.OK
    for text in ("one", "two"):
        said = jam("say", "r", text)
        assert (said.status, said.out) == (Exit.OK, "answer\n"), said
    assert jam("stop", "r").status == Exit.OK
    for words in (("resume", "r"), ("say", "r", "four")):
        refused = jam(*words)
        assert refused.status == Exit.REFUSED, refused
        assert "(continuity.refused)" in refused.err
    looked = jam("continuity", "inspect", "r")
    assert "there is no checkpoint" in looked.out, looked
    [room] = jam("ls", "--json").json
    assert not room["live"]


def test_who_pipes_messages_in_or_runs_one_waits_for_no_checkpoint(jam: Jam) -> None:
    """No checkpoint will be made, so what was said is answered once the agent is done."""
    assert jam("room", "new", "small", "--name", "r", *ENDPOINT).status == Exit.OK
    talked = jam("attach", "r", typed=b"one\ntwo\n")
    assert (talked.status, talked.out.count("answer")) == (Exit.OK, 2), talked
    done = jam("run", "small", "one", *ENDPOINT)
    assert done.status == Exit.OK, done
    assert "answer" in done.out
