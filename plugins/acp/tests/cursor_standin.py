"""A stand-in for Cursor's agent, written from the public facts about it: started by test_cursor.py, never by pytest.

It keeps a session in ``$CURSOR_CONFIG_DIR/acp-sessions/<id>/store.db`` and sends the whole conversation to its endpoint in each turn, so
that a test sees what it remembers. What it does in a turn is in the text: ``write NAME`` asks for permission and writes a file, ``ask``
asks its own question, ``wait`` never ends by itself.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import urllib.request
from pathlib import Path
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

waiting: dict[str, Any] = {}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tell(session: str, kind: str, /, **more: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": kind, **more}}})


def say(session: str, kind: str, words: str) -> None:
    tell(session, kind, content={"type": "text", "text": words})


def ask(method: str, **params: Any) -> dict[str, Any]:
    send({"id": f"q-{method}", "method": method, "params": params})
    answer = json.loads(sys.stdin.readline())
    found: dict[str, Any] = answer.get("result", answer.get("error"))
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


def model(session: str) -> str:
    """Ask the endpoint with everything that was said."""
    messages = [{"role": role, "content": words} for role, words in told_before(session)]
    body = json.dumps({"model": "stand-in", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    with urllib.request.urlopen(urllib.request.Request(f"{ENDPOINT}/v1/chat/completions", body, headers)) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def prompt(asked: dict[str, Any]) -> None:
    session, words = asked["params"]["sessionId"], asked["params"]["prompt"][0]["text"]
    keep(session, "user", words)
    if words.startswith("wait"):
        say(session, "agent_message_chunk", "waiting")
        waiting[session] = asked["id"]
        return
    if words.startswith("write "):
        call = {"toolCallId": "w", "title": "write", "kind": "edit", "status": "pending"}
        path = str(Path(json.loads((STORE / session / "meta.json").read_text())["cwd"]) / words.split()[1])
        diff = [{"type": "diff", "path": path, "oldText": None, "newText": "one\n"}]
        tell(session, "tool_call", **call)
        chosen = ask("session/request_permission", sessionId=session, toolCall={**call, "content": diff}, options=OPTIONS)
        allowed = chosen["outcome"].get("optionId") == "allow-once"
        if allowed:
            Path(path).write_text("one\n")
        tell(session, "tool_call_update", toolCallId="w", status="completed" if allowed else "failed", content=diff)
    if words.startswith("ask"):
        question = {"id": "1", "prompt": "which?", "options": [{"id": "a", "label": "A"}]}
        answered = ask("cursor/ask_question", toolCallId="a", questions=[question])
        say(session, "agent_message_chunk", json.dumps(answered))
    answer = model(session)
    keep(session, "assistant", answer)
    say(session, "agent_message_chunk", answer)
    send({"id": asked["id"], "result": {"stopReason": "end_turn"}})


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
    if not (STORE / session / "store.db").exists():
        raise RefusedError(-32602, f"Session {session} not found")
    for role, words in told_before(session):
        say(session, "user_message_chunk" if role == "user" else "agent_message_chunk", words)
    return {"configOptions": MODES}


def list_sessions(_params: dict[str, Any]) -> dict[str, Any]:
    return {"sessions": [{"sessionId": path.name} for path in sorted(STORE.iterdir())]}


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
        match asked["method"]:
            case "session/prompt":
                prompt(asked)
            case "session/cancel":
                if (id_ := waiting.pop(asked["params"]["sessionId"], None)) is not None:
                    send({"id": id_, "result": {"stopReason": "cancelled"}})
            case method:
                try:
                    send({"id": asked["id"], "result": ANSWERS[method](asked["params"])})
                except RefusedError as refused:
                    code, message = refused.args
                    send({"id": asked["id"], "error": {"code": code, "message": message}})


if __name__ == "__main__":
    main()
