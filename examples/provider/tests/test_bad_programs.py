"""Programs that are not the one that was expected, or no longer well: every nonsense becomes one typed error."""

from __future__ import annotations

import pytest
from jamcore.api import ProviderGoneError, ProviderProtocolError, ProviderRefusedError, RuntimeRequest
from jamcore.testing.providers.bad_programs import ProviderBadPrograms
from jamcore.testing.providers.case import Case
from jamcore.testing.providers.opening import ProviderHooks, hooks_of
from jamcore.testing.providers.standin import StandIn

from jam_example_agent.plugin import ExampleAgentPlugin

# A program that speaks the protocol and nothing else. At each "#place" a test puts statements that misbehave.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

def raw(line):
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()

def send(message):
    raw(json.dumps(message).encode() + b"\\n")

def told(method, thread="t", **params):
    send({"method": method, "params": {"thread": thread, "turn": asked["params"].get("turn"), **params}})

for line in sys.stdin:
    asked = json.loads(line)
    def answer(result):
        send({"id": asked["id"], "result": result})
    if asked["method"] == "hello":
        #hello
        answer({"version": "1.0.0"})
    elif asked["method"] in ("thread/new", "thread/load"):
        #thread
        answer({"thread": "t"})
    elif asked["method"] == "turn":
        #turn
        answer({})
        told("turn/started")
        told("delta", item="m", text="kept")
        #running
        told("turn/ended", outcome="completed")
    elif asked["method"] == "interrupt":
        #interrupt
        told("turn/ended", outcome="interrupted")
"""


def from_tools(request: RuntimeRequest) -> tuple[str, ...]:
    """Return how a stand-in is started: it lies below the tools root."""
    return (f"{request.tools_root}/agent",)


class TestBadPrograms(ProviderBadPrograms):
    """In ExampleAgent's place."""

    stand_in = StandIn("agent", PROGRAM)
    nonsense = {
        "a line of a log": ('raw(b"thread main panicked\\n"); continue', ProviderProtocolError),
        "a line without an end": ('raw(b"x" * (64 << 20)); continue', ProviderProtocolError),
        "a wrong id": ('send({"id": 4711, "result": {}}); continue', ProviderProtocolError),
        "an array": ("send([]); continue", ProviderProtocolError),
        "half a line, then the end": ('raw(b"{"); sys.exit(1)', ProviderGoneError),
        "the end": ("sys.exit(0)", ProviderGoneError),
        "a crash": ("os.kill(os.getpid(), 9)", ProviderGoneError),
    }
    no_thread = {
        "an answer without a thread": ("answer({}); continue", ProviderProtocolError),
        "a thread that is no text": ('answer({"thread": 7}); continue', ProviderProtocolError),
        "a thread of a megabyte": ('answer({"thread": "x" * 1_000_000}); continue', ProviderProtocolError),
        "an error": (
            'send({"id": asked["id"], "error": {"code": 1, "message": "no"}}); continue',
            ProviderRefusedError,
        ),
    }
    thread_places = ("thread",)
    up_place = "hello"
    not_up = {
        "no version": ("answer({}); continue", ProviderProtocolError),
        "an early end": ("sys.exit(3)", ProviderGoneError),
        "a banner": ('raw(b"oops\\n")', ProviderProtocolError),
    }
    other_version = "1.0.1"
    version_words = r"1\.0\.0, not 1\.0\.1"
    another = {"thread": 'answer({"thread": "another"}); continue'}
    stray = (
        'told("turn/ended", thread="other", outcome="failed"); told("delta", thread="other", item="m", text="x");'
        'told("who/knows", a=1); send({"method": "delta", "params": {"thread": "t", "turn": "old", "text": "x"}})'
    )

    @pytest.fixture
    async def hooks(self, case: Case) -> ProviderHooks:
        """ExampleAgent's plugin, with the stand-in in the place of its program."""
        return await hooks_of("example_agent", ExampleAgentPlugin(from_tools))
