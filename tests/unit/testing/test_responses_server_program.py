"""The scripted model server as a program of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jamcore.testing.servers.apis import SERVERS
from jamcore.testing.servers.responses import CustomCall, Hold, Rule, Script, Text, read_records, say

MODULE = "jamcore.testing.servers.responses"
SOON_S = 20.0


@contextmanager
def running(
    tmp_path: Path, script: Script, *arguments: str, stdin: int = subprocess.PIPE, module: str = MODULE
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start the program and yield it with its API URL; it is killed at the end if it still runs."""
    file = tmp_path / "script.json"
    file.write_bytes(script.canonical_json())
    command = [sys.executable, "-m", module, "--script", str(file), *arguments]
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["api_url"]
        finally:
            process.kill()


def ask(api_url: str) -> bytes:
    request = urllib.request.Request(f"{api_url}/responses", data=b'{"input": "hi"}', method="POST")
    with urllib.request.urlopen(request, timeout=SOON_S) as answer:
        return bytes(answer.read())


def test_it_serves_and_ends_with_its_standard_input(tmp_path: Path) -> None:
    """One line of JSON says where it is; it answers and records; the end of its input ends it with status 0."""
    record = tmp_path / "requests.jsonl"
    with running(tmp_path, Script(rules=(say("ok"),)), "--record", str(record)) as (process, url):
        assert b"response.completed" in ask(url)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SOON_S) == 0
    assert [request.body for request in read_records(record)] == [{"input": "hi"}]


def test_it_ends_on_sigterm_even_while_a_stream_is_held(tmp_path: Path) -> None:
    """With no input to watch a signal ends it, status 0, whatever is being sent."""
    holds = tmp_path / "holds"
    holds.mkdir()
    script = Script(rules=(Rule(answer=(Text(deltas=("a",)), Hold(gate="never"))),))
    with running(tmp_path, script, "--hold-dir", str(holds), stdin=subprocess.DEVNULL) as (process, url):
        request = urllib.request.Request(f"{url}/responses", data=b'{"input": "hi"}', method="POST")
        with urllib.request.urlopen(request, timeout=SOON_S) as answer:
            assert answer.readline().startswith(b"event: response.created")
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON_S) == 0


@pytest.mark.crash
def test_its_record_survives_sigkill(tmp_path: Path) -> None:
    """Killed in the middle of an answer, the file still holds the request."""
    record = tmp_path / "requests.jsonl"
    script = Script(rules=(Rule(answer=(Text(deltas=("a",)), Hold(gate="never"))),))
    with running(tmp_path, script, "--record", str(record)) as (process, url):
        request = urllib.request.Request(f"{url}/responses", data=b'{"input": "hi"}', method="POST")
        with urllib.request.urlopen(request, timeout=SOON_S) as answer:
            assert answer.readline().startswith(b"event: response.created")
            process.kill()
            assert process.wait(SOON_S) == -signal.SIGKILL
    assert [request.body for request in read_records(record)] == [{"input": "hi"}]


@pytest.mark.parametrize("content", [b"{", b'{"rules": [{"typo": 1}]}', None])
def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Status 2 and the file's name on standard error; nothing on standard output that could be taken for a URL."""
    file = tmp_path / "script.json"
    if content is not None:
        file.write_bytes(content)
    done = subprocess.run([sys.executable, "-m", MODULE, "--script", str(file)], capture_output=True, timeout=SOON_S, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert str(file).encode() in done.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_the_server_of_every_api_is_a_program(tmp_path: Path, name: str) -> None:
    """The same options and the same line of JSON; a model request of its API is answered with the script's text."""
    path = {"responses": "/responses", "messages": "/messages", "chat": "/chat/completions"}[name]
    with running(tmp_path, Script(rules=(say("scripted words"),)), module=f"jamcore.testing.servers.{name}") as (process, url):
        request = urllib.request.Request(url + path, data=b'{"stream": false}', method="POST")
        with urllib.request.urlopen(request, timeout=SOON_S) as answer:
            assert b"scripted words" in answer.read()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SOON_S) == 0


def test_a_script_that_the_api_cannot_say_is_refused(tmp_path: Path) -> None:
    """Status 2 as for any other script that is wrong, with the part that it has no form for; the help names the program."""
    file = tmp_path / "script.json"
    file.write_bytes(Script(rules=(Rule(answer=(CustomCall(name="patch", input="x"),)),)).canonical_json())
    command = [sys.executable, "-m", "jamcore.testing.servers.chat", "--script", str(file)]
    done = subprocess.run(command, capture_output=True, timeout=SOON_S, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"custom_call" in done.stderr
    help_text = subprocess.run([*command, "--help"], capture_output=True, timeout=SOON_S, check=True).stdout
    assert b"python -m jamcore.testing.servers.chat" in help_text
