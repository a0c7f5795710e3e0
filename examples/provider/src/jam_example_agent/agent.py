"""A tiny agent. It stands where your agent's program will be, and shows what Jam asks of one.

It runs in the guest with the guest's own Python and nothing but the standard library. It speaks JSON-RPC, one object per line, on
its standard streams: threads, turns, deltas, two tools, questions before it acts, an interrupt. A thread is a file that only grows,
so a kill loses nothing that was said. The model is reached at Jam's relay, in the form of OpenAI's Chat Completions API.

    python3 agent.py DIRECTORY-OF-THREADS ADDRESS-OF-THE-RELAY
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

VERSION = "1.0.0"
MODEL = "example_agent-1"

ATTEMPTS = 3
PAUSE_S = 0.2
SILENT_S = 300.0
OUTPUT_BYTES = 256 << 10
LINE_BYTES = 8 << 20
IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

TOOLS = {
    "shell": ("Run a command in the working directory.", {"command": "the command"}),
    "write": ("Write a file.", {"path": "its path", "content": "all that it will hold"}),
}


class Refused(Exception):
    """A request that is answered with an error; the text says why."""


class Stopped(Exception):
    """The turn was interrupted."""


class ModelFailed(Exception):
    """The model did not answer: why, its status, and whether to try again."""

    def __init__(self, why: str, detail: str, *, status: int = 0, again: bool = False) -> None:
        super().__init__(detail)
        self.why, self.detail, self.status, self.again = why, detail, status, again


class Peer:
    """The other side: lines out, and its answers to questions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = 0
        self._waiting: dict[int, queue.SimpleQueue[Any]] = {}

    def send(self, message: dict[str, Any]) -> None:
        """Write one line. When nobody reads any more, the end of the input is near."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def ask(self, method: str, params: dict[str, Any]) -> queue.SimpleQueue[Any]:
        """Ask, and return where the answer will be."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._lock:
            self._asked += 1
            number = self._asked
            self._waiting[number] = answer
        self.send({"id": number, "method": method, "params": params})
        return answer

    def answered(self, message: dict[str, Any]) -> None:
        """Take an answer."""
        waiting = self._waiting.pop(message.get("id", 0), None)
        if waiting is not None:
            waiting.put(message.get("result"))


class Conversation:
    """A thread and its file. The file begins with the first turn; it is locked, so that no second program writes into it."""

    def __init__(self, identity: str, directory: Path) -> None:
        self.identity = identity
        self.path = directory / f"{identity}.jsonl"
        self.cwd, self.model, self.asks = "/", MODEL, False
        self.records: list[dict[str, Any]] = []
        self.turn: Turn | None = None
        self.file: BinaryIO | None = None

    def load(self) -> None:
        """Read the file. What is not whole is refused: something that was said would be missing."""
        try:
            self.file = self.path.open("r+b", buffering=0)
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            raise Refused("there is no such thread") from None
        except BlockingIOError:
            raise Refused("another program has this thread open") from None
        *lines, rest = self.file.read().split(b"\n")
        try:
            self.records = [json.loads(line) for line in lines]
            whole = [record["n"] for record in self.records] == list(range(len(lines)))
        except (ValueError, KeyError, TypeError):
            whole = False
        if rest or not lines or not whole or self.records[0].get("thread") != self.identity:
            raise Refused("the thread's file is damaged, and something that was said would be missing")

    def close(self) -> None:
        """Let the file go, and with it the lock."""
        if self.file is not None:
            self.file.close()

    def keep(self, kind: str, **more: Any) -> None:
        """Write a record, at once and whole: only then is it told to anybody."""
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("x+b", buffering=0)
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.keep("thread", thread=self.identity, version=VERSION)
        record = {"n": len(self.records), "kind": kind, **more}
        self.file.seek(0, os.SEEK_END)
        self.file.write(json.dumps(record).encode() + b"\n")
        self.records.append(record)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the records of these kinds."""
        return [record for record in self.records if record["kind"] in kinds]

    def turns(self) -> list[dict[str, str]]:
        """Return the turns. One without an end was cut by a kill."""
        ends = {record["turn"]: record["outcome"] for record in self.of("end")}
        return [
            {
                "turn": record["turn"],
                "outcome": ends.get(record["turn"], "interrupted"),
                "digest": hashlib.sha256(record["text"].encode()).hexdigest(),
            }
            for record in self.of("turn")
        ]

    def messages(self) -> list[dict[str, Any]]:
        """Return the whole conversation as the model is told it. A call that has no output was cut."""
        outputs = {record["call"]: record["output"] for record in self.of("output")}
        said: list[dict[str, Any]] = []
        for record in self.of("turn", "answer"):
            if record["kind"] == "turn":
                said.append({"role": "user", "content": record["text"]})
                continue
            calls = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in record["calls"]
            ]
            said.append({"role": "assistant", "content": record["text"] or None, **({"tool_calls": calls} if calls else {})})
            for call in record["calls"]:
                output = outputs.get(call["id"], "interrupted before there was a result")
                said.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        return said


class Turn:
    """A turn. It works in a thread of its own and is stopped from outside."""

    def __init__(self, conversation: Conversation, identity: str, peer: Peer, relay: str) -> None:
        self.conversation, self.identity, self.peer, self.relay = conversation, identity, peer, relay
        self.stopping = threading.Event()
        self.worker = threading.Thread(target=self.run)
        self._lock = threading.Lock()
        self._connected: socket.socket | None = None
        self._command: subprocess.Popen[bytes] | None = None
        self._question: queue.SimpleQueue[Any] | None = None

    def stop(self) -> None:
        """End whatever it waits for."""
        with self._lock:
            self.stopping.set()
            if self._connected is not None:
                with suppress(OSError):
                    self._connected.shutdown(socket.SHUT_RDWR)
            if self._command is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._command.pid, signal.SIGKILL)
            if self._question is not None:
                self._question.put(None)

    def tell(self, method: str, **more: Any) -> None:
        """Tell something of this turn."""
        params = {"thread": self.conversation.identity, "turn": self.identity, **more}
        self.peer.send({"method": method, "params": params})

    def run(self) -> None:
        """Ask the model, do what it wants, and again, until it wants nothing more."""
        self.tell("turn/started")
        outcome, why = "completed", {}
        try:
            while calls := self.round():
                for call in calls:
                    self.call(call["id"], call["name"], call["arguments"])
        except Stopped:
            outcome = "interrupted"
        except ModelFailed as error:
            outcome, why = "failed", {"why": error.why, "detail": error.detail, "status": error.status}
        self.conversation.keep("end", turn=self.identity, outcome=outcome)
        self.conversation.turn = None
        self.tell("turn/ended", outcome=outcome, **why)

    # ----------------------------------------------------------------------------------------------------- the model

    def round(self) -> list[dict[str, str]]:
        """Get one answer of the model, keep it, tell it, and return the calls in it."""
        answer = self.answer()
        self.conversation.keep("answer", **answer)
        if answer["text"]:
            self.tell("message", item=answer["item"], text=answer["text"])
        spent = [record["tokens"] for record in self.conversation.of("answer")]
        self.tell("usage", input_tokens=sum(s[0] for s in spent), output_tokens=sum(s[1] for s in spent))
        calls: list[dict[str, str]] = answer["calls"]
        return calls

    def answer(self) -> dict[str, Any]:
        """Ask, a few times at most. What was half said before is not kept."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.ask_once()
            except ModelFailed as error:
                if self.stopping.is_set():
                    raise Stopped from None
                if not error.again or attempt == ATTEMPTS:
                    raise
                self.tell("notice", text=f"The model did not answer ({error.detail}); trying again.")
                if self.stopping.wait(PAUSE_S * attempt):
                    raise Stopped from None
        raise AssertionError

    def ask_once(self) -> dict[str, Any]:
        """Make one request and read its stream."""
        place = urlsplit(self.relay)
        assert place.hostname is not None
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=SILENT_S)
        body = {
            "model": self.conversation.model,
            "messages": self.conversation.messages(),
            "tools": [_tool(name, *about) for name, about in TOOLS.items()],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        reached = False
        try:
            connection.connect()
            with self._lock:
                if self.stopping.is_set():
                    raise Stopped
                self._connected = connection.sock
            headers = {"Content-Type": "application/json", "Connection": "close"}
            connection.request("POST", f"{place.path}/v1/chat/completions", json.dumps(body), headers)
            response = connection.getresponse()
            reached = True
            if response.status != 200:
                detail = response.read(2000).decode(errors="replace")
                again = response.status == 429 or response.status >= 500
                raise ModelFailed("status", detail, status=response.status, again=again)
            return self.read(response)
        except TimeoutError:
            raise ModelFailed("silent", f"the model said nothing for {SILENT_S:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = "cut" if reached else "unreachable"
            raise ModelFailed(why, f"{type(error).__name__}: {error}", again=True) from None
        finally:
            with self._lock:
                self._connected = None
            connection.close()

    def read(self, response: http.client.HTTPResponse) -> dict[str, Any]:
        """Read the stream of an answer; its text is told as it comes."""
        item, text = str(uuid.uuid4()), ""
        calls: dict[int, dict[str, str]] = {}
        tokens = [0, 0]
        for chunk in _chunks(response):
            if "error" in chunk:
                raise ModelFailed("failed", str(chunk["error"])[:2000])
            if usage := chunk.get("usage"):
                tokens = [usage["prompt_tokens"], usage["completion_tokens"]]
            for choice in chunk.get("choices", ()):
                delta = choice["delta"]
                if said := delta.get("content"):
                    text += said
                    self.tell("delta", item=item, text=said)
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.get("id") or ""
                    call["name"] += part["function"].get("name") or ""
                    call["arguments"] += part["function"].get("arguments") or ""
        return {"item": item, "text": text, "calls": [calls[place] for place in sorted(calls)], "tokens": tokens}

    # ----------------------------------------------------------------------------------------------------- the tools

    def call(self, item: str, name: str, arguments: str) -> None:
        """Do what the model calls for, and keep the output for it."""
        if self.stopping.is_set():
            raise Stopped
        try:
            given = json.loads(arguments)
            output = self.shell(item, given["command"]) if name == "shell" else self.write(item, **given)
        except (ValueError, KeyError, TypeError, OSError) as error:
            output = f"the call failed: {type(error).__name__}: {error}"
        self.conversation.keep("output", call=item, output=output)

    def shell(self, item: str, command: str) -> str:
        """Run a command. What it leaves in the background ends with it, and all of it with the turn."""
        cwd = self.conversation.cwd
        self.tell("command/started", item=item, command=command, cwd=cwd)
        code, output = None, "the command was not allowed"
        if self.allowed(item, "command", command, f"in {cwd}"):
            code, output = self.execute(command, cwd)
        self.tell("command/finished", item=item, command=command, output=output, exit_code=code)
        if self.stopping.is_set():
            raise Stopped
        return output if code in (0, None) else f"{output}\n(exit status {code})"

    def execute(self, command: str, cwd: str) -> tuple[int | None, str]:
        """Run a command to its end; return its exit status (`None`: it was killed) and its output."""
        with self._lock:
            if self.stopping.is_set():
                raise Stopped
            process = self._command = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert process.stdout is not None
        output = bytearray()
        reader = threading.Thread(target=_drain, args=(process.stdout, output))
        reader.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._command = None
        reader.join()
        process.stdout.close()
        return process.returncode if process.returncode >= 0 else None, output.decode(errors="replace")

    def write(self, item: str, path: str, content: str) -> str:
        """Write a file."""
        place = Path(self.conversation.cwd, path)
        before = place.read_text(errors="replace") if place.exists() else None
        change = "add" if before is None else "update"
        old, new = (before or "").splitlines(keepends=True), content.splitlines(keepends=True)
        diff = "".join(difflib.unified_diff(old, new, "/dev/null" if before is None else str(place), str(place)))
        if not self.allowed(item, "file-change", f"{change} {place}", diff):
            return "the change was not allowed"
        place.write_text(content)
        self.tell("file/changed", item=item, path=str(place), change=change, diff=diff)
        return "done"

    def allowed(self, item: str, subject: str, detail: str, preview: str) -> bool:
        """Ask before acting, where the thread asks."""
        if not self.conversation.asks:
            return True
        about = {"item": item, "subject": subject, "detail": detail, "preview": preview}
        with self._lock:
            if self.stopping.is_set():
                raise Stopped
            whose = {"thread": self.conversation.identity, "turn": self.identity}
            self._question = self.peer.ask("approve", {**whose, **about})
        answer = self._question.get()
        if self.stopping.is_set():
            raise Stopped
        return isinstance(answer, dict) and answer.get("allow") is True


def _tool(name: str, about: str, parameters: dict[str, str]) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": value} for key, value in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def _chunks(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a stream. One that ends without its end mark was cut."""
    while line := response.readline(LINE_BYTES):
        field, _, value = line.decode().strip().partition(":")
        if field == "data" and value.strip() == "[DONE]":
            return
        if field == "data":
            yield json.loads(value)
    raise http.client.HTTPException("the stream ended in the middle of an answer")


def _drain(stream: Any, output: bytearray) -> None:
    while piece := stream.read1(1 << 16):
        output += piece[: OUTPUT_BYTES - len(output)]


class Agent:
    """All threads of this process."""

    def __init__(self, directory: Path, relay: str) -> None:
        self.directory, self.relay = directory, relay
        self.peer = Peer()
        self.conversations: dict[str, Conversation] = {}

    def serve(self) -> None:
        """Take requests until there are no more, then stop what runs and wait for it."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                self.peer.answered(message)
                continue
            try:
                answer = {"result": self.request(message["method"], message.get("params", {}))}
            except Refused as error:
                answer = {"error": {"code": -32000, "message": str(error)}}
            if "id" in message:
                self.peer.send({"id": message["id"], **answer})
        turns = [conversation.turn for conversation in self.conversations.values() if conversation.turn is not None]
        for turn in turns:
            turn.stop()
        for turn in turns:
            turn.worker.join()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        if method == "hello":
            return {"version": VERSION}
        if method == "thread/new":
            return self.begin(params)
        if method == "thread/load":
            return self.load(params)
        conversation = self.conversations.get(params.get("thread", ""))
        if conversation is None:
            raise Refused("the thread is not loaded")
        if method == "turn":
            return self.turn(conversation, params)
        turn = conversation.turn
        if method == "interrupt" and turn is not None and turn.identity == params.get("turn"):
            turn.stop()
        return {}

    def begin(self, params: dict[str, Any]) -> dict[str, Any]:
        """Begin a thread. Nothing is written before its first turn."""
        conversation = self.settle(Conversation(str(uuid.uuid4()), self.directory), params)
        return {"thread": conversation.identity}

    def load(self, params: dict[str, Any]) -> dict[str, Any]:
        """Bring a thread back, whole or not at all; no thread is ever begun here."""
        identity = params["thread"]
        if not IDENTITY.match(identity):
            raise Refused("there is no such thread")
        known = self.conversations.get(identity)
        if known is not None and known.turn is not None:
            raise Refused("a turn is running in this thread")
        if known is not None:
            known.close()
        conversation = Conversation(identity, self.directory)
        try:
            conversation.load()
        except Refused:
            conversation.close()
            self.conversations.pop(identity, None)
            raise
        self.settle(conversation, params)
        return {"thread": identity, "turns": conversation.turns()}

    def settle(self, conversation: Conversation, params: dict[str, Any]) -> Conversation:
        """Take what is said anew each time: the directory, the model, and whether to ask."""
        conversation.cwd, conversation.asks = params["cwd"], params["ask"]
        conversation.model = params["model"] or MODEL
        self.conversations[conversation.identity] = conversation
        return conversation

    def turn(self, conversation: Conversation, params: dict[str, Any]) -> dict[str, Any]:
        """Begin a turn once its text is kept."""
        if conversation.turn is not None:
            raise Refused("a turn is running in this thread")
        conversation.keep("turn", turn=params["turn"], text=params["text"])
        turn = conversation.turn = Turn(conversation, params["turn"], self.peer, self.relay)
        turn.worker.start()
        return {}


if __name__ == "__main__":
    Agent(Path(sys.argv[1]), sys.argv[2]).serve()
