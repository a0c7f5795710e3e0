"""A stand-in for Cursor's agent, written from the public facts about it: started by tests, never by pytest.

It keeps a session in ``$CURSOR_CONFIG_DIR/acp-sessions/<id>``: what was said in ``store.db``, its directory in ``meta.json``, which is as
much a part of it: no session is known without it, and none goes on in another directory. It sends the whole conversation to its endpoint in
each turn, so that a test sees what it remembers. What it does in a turn is what its model says: it runs a command after it asked for
permission. Some texts make it do something by itself: ``write NAME`` asks for permission and writes a file, ``ask`` asks its own question,
``wait`` never ends by itself.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

KEY = os.environ.get("CURSOR_API_KEY", "")
STORE = Path(os.environ.get("CURSOR_CONFIG_DIR", ".")) / "acp-sessions"
ENDPOINT = sys.argv[sys.argv.index("-e") + 1] if "-e" in sys.argv else ""
LOGIN = "Authentication required. Please run `agent login` first, then call authenticate() with methodId 'cursor_login'."
OPTIONS = [
    {"optionId": "allow-once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]
MODES = [{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask", "options": []}]

writing = threading.Lock()
answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
"""What the client says to this agent's own requests: one is under way at a time."""
turns: dict[str, Turn] = {}
"""The turn that runs in each session."""


class CancelledError(Exception):
    """The turn was ended by its client."""


class Turn:
    """One turn: it works in a thread of its own, so that it can be cancelled."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.cancelled = threading.Event()
        self.command: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        """End it: what waits stops waiting, what runs ends, and its client is told so."""
        self.cancelled.set()
        answers.put({"result": {"outcome": {"outcome": "cancelled"}}})
        if self.command is not None:
            os.killpg(self.command.pid, signal.SIGKILL)
        send({"id": self.asked["id"], "result": {"stopReason": "cancelled"}})

    def check(self) -> None:
        """Go no further with a turn that was ended."""
        if self.cancelled.is_set():
            raise CancelledError


def send(message: dict[str, Any]) -> None:
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tell(session: str, kind: str, /, **more: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": kind, **more}}})


def say(session: str, kind: str, words: str) -> None:
    tell(session, kind, content={"type": "text", "text": words})


def ask(method: str, **params: Any) -> dict[str, Any]:
    send({"id": f"q-{method}", "method": method, "params": params})
    answer = answers.get()
    found: dict[str, Any] = answer["result"] if "result" in answer else answer["error"]
    return found


def store(session: str) -> sqlite3.Connection:
    return sqlite3.connect(STORE / session / "store.db", isolation_level=None)


def told_before(session: str) -> list[tuple[str, str]]:
    with store(session) as database:
        return list(database.execute("select role, words from said order by rowid"))


def keep(session: str, role: str, words: str) -> None:
    with store(session) as database:
        database.execute("insert into said values (?, ?)", (role, words))


def new(cwd: str) -> str:
    session = str(uuid4())
    (STORE / session).mkdir(parents=True)
    with store(session) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table said (role text, words text)")
    (STORE / session / "meta.json").write_text(json.dumps({"schemaVersion": 1, "cwd": cwd}))
    return session


def messages(session: str) -> Iterator[dict[str, Any]]:
    """Yield everything that was said as the endpoint wants it; a call that never got an output gets one that says so."""
    said = told_before(session)
    done = {json.loads(words)["id"] for role, words in said if role == "tool"}
    for role, words in said:
        if role in ("user", "assistant"):
            yield {"role": role, "content": words}
            continue
        made = json.loads(words)
        if role == "tool":
            yield {"role": "tool", "tool_call_id": made["id"], "content": made["output"]}
            continue
        function = {"name": made["name"], "arguments": made["arguments"]}
        yield {"role": "assistant", "tool_calls": [{"id": made["id"], "type": "function", "function": function}]}
        if made["id"] not in done:
            yield {"role": "tool", "tool_call_id": made["id"], "content": "interrupted"}


def model(turn: Turn, session: str) -> tuple[str, dict[str, Any]]:
    """Ask the endpoint with everything that was said, tell the answer as it comes, and return it with the call in it, if any."""
    body = json.dumps({"model": "stand-in", "stream": True, "messages": list(messages(session))}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    said, whole, call = "", False, {"id": "", "name": "", "arguments": ""}
    with urllib.request.urlopen(urllib.request.Request(f"{ENDPOINT}/v1/chat/completions", body, headers)) as answer:
        for line in answer:
            turn.check()
            if not line.startswith(b"data: {"):
                whole = whole or line.startswith(b"data: [DONE]")
                continue
            choices: list[dict[str, Any]] = json.loads(line[6:])["choices"]
            delta: dict[str, Any] = choices[0]["delta"] if choices else {}
            if words := delta.get("content"):
                said += words
                say(session, "agent_message_chunk", words)
            for piece in delta.get("tool_calls", []):
                call["id"] += piece.get("id") or ""
                call["name"] += piece["function"].get("name") or ""
                call["arguments"] += piece["function"].get("arguments") or ""
    if not whole:
        raise ConnectionError("the stream was cut")
    return said, call


def run(turn: Turn, session: str, call: dict[str, Any]) -> str:
    """Run a command of the model's, if it is allowed, and return what it is told of it."""
    command = json.loads(call["arguments"])["command"]
    shown = {"toolCallId": call["id"], "title": command, "kind": "execute", "status": "pending", "rawInput": {"command": command}}
    tell(session, "tool_call", **shown)
    allowed = ask("session/request_permission", sessionId=session, toolCall=shown, options=OPTIONS)["outcome"].get("optionId")
    turn.check()
    output = "rejected"
    if allowed == "allow-once":
        turn.command = subprocess.Popen(
            ("/bin/sh", "-c", command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            cwd=place(session),
            process_group=0,
        )
        output = turn.command.communicate()[0]
        turn.check()
    content = [{"type": "content", "content": {"type": "text", "text": output}}]
    status = "completed" if allowed == "allow-once" else "failed"
    tell(session, "tool_call_update", toolCallId=call["id"], status=status, content=content)
    return output


def place(session: str) -> str:
    found: str = json.loads((STORE / session / "meta.json").read_text())["cwd"]
    return found


def prompt(turn: Turn) -> None:
    session, words = turn.asked["params"]["sessionId"], turn.asked["params"]["prompt"][0]["text"]
    try:
        work(turn, session, words)
        send({"id": turn.asked["id"], "result": {"stopReason": "end_turn"}})
    except CancelledError:
        pass
    except OSError as error:  # the endpoint refused, or was not there
        send({"id": turn.asked["id"], "error": {"code": -32603, "message": str(error)}})
    finally:
        turns.pop(session, None)


def work(turn: Turn, session: str, words: str) -> None:
    keep(session, "user", words)
    if words.startswith("wait"):
        say(session, "agent_message_chunk", "waiting")
        turn.cancelled.wait()
    if words.startswith("write "):
        write(turn, session, words.split()[1])
    if words.startswith("ask"):
        question = {"id": "1", "prompt": "which?", "options": [{"id": "a", "label": "A"}]}
        answered = ask("cursor/ask_question", toolCallId="a", questions=[question])
        say(session, "agent_message_chunk", json.dumps(answered))
    while True:
        turn.check()
        said, call = model(turn, session)
        if said:
            keep(session, "assistant", said)
        if not call["id"]:
            return
        keep(session, "call", json.dumps(call))
        keep(session, "tool", json.dumps({"id": call["id"], "output": run(turn, session, call)}))


def write(turn: Turn, session: str, name: str) -> None:
    """Write a file, if it is allowed."""
    call = {"toolCallId": "w", "title": "write", "kind": "edit", "status": "pending"}
    path = str(Path(place(session)) / name)
    diff = [{"type": "diff", "path": path, "oldText": None, "newText": "one\n"}]
    tell(session, "tool_call", **call)
    chosen = ask("session/request_permission", sessionId=session, toolCall={**call, "content": diff}, options=OPTIONS)
    turn.check()
    allowed = chosen["outcome"].get("optionId") == "allow-once"
    if allowed:
        Path(path).write_text("one\n")
    tell(session, "tool_call_update", toolCallId="w", status="completed" if allowed else "failed", content=diff)


class RefusedError(Exception):
    """Code and message of an error."""


def initialize(_params: dict[str, Any]) -> dict[str, Any]:
    capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
    return {
        "protocolVersion": 1,
        "agentCapabilities": capabilities,
        "authMethods": [{"id": "cursor_login", "name": "Cursor Login"}],
    }


def new_session(params: dict[str, Any]) -> dict[str, Any]:
    if not KEY:
        raise RefusedError(-32000, LOGIN)
    return {"sessionId": new(params["cwd"]), "configOptions": MODES}


def load_session(params: dict[str, Any]) -> dict[str, Any]:
    session = params["sessionId"]
    if not KEY:
        raise RefusedError(-32000, LOGIN)
    if not ((STORE / session / "store.db").exists() and (STORE / session / "meta.json").exists()):
        raise RefusedError(-32602, f"Session {session} not found")
    for role, words in told_before(session):
        if role in ("user", "assistant"):
            say(session, "user_message_chunk" if role == "user" else "agent_message_chunk", words)
        elif role == "call":
            tell(session, "tool_call", toolCallId=json.loads(words)["id"], title="command", kind="execute", status="pending")
        else:
            tell(session, "tool_call_update", toolCallId=json.loads(words)["id"], status="completed")
    return {"configOptions": MODES}


def list_sessions(_params: dict[str, Any]) -> dict[str, Any]:
    kept = sorted(path.parent.name for path in STORE.glob("*/meta.json"))
    return {"sessions": [{"sessionId": session, "cwd": place(session)} for session in kept]}


def authenticate(_params: dict[str, Any]) -> dict[str, Any]:
    sys.exit("it opened a browser")


def choose(_params: dict[str, Any]) -> dict[str, Any]:
    return {}


ANSWERS = {
    "initialize": initialize,
    "session/new": new_session,
    "session/load": load_session,
    "session/list": list_sessions,
    "session/set_config_option": choose,
    "authenticate": authenticate,
}


def main() -> None:
    if "--version" in sys.argv:
        print("2026.08.31-standin")
        return
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case None:
                answers.put(asked)
            case "session/prompt":
                turn = turns[asked["params"]["sessionId"]] = Turn(asked)
                threading.Thread(target=prompt, args=(turn,), daemon=True).start()
            case "session/cancel":
                if asked["params"]["sessionId"] in turns:
                    turns.pop(asked["params"]["sessionId"]).cancel()
            case method:
                try:
                    send({"id": asked["id"], "result": ANSWERS[method](asked["params"])})
                except RefusedError as refused:
                    code, message = refused.args
                    send({"id": asked["id"], "error": {"code": code, "message": message}})


if __name__ == "__main__":
    main()
