"""Plays live tests against a scripted model: that their code runs is proven without an account, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from jamcore.testing.live import ENDPOINT, SWITCH, LiveTest
from jamcore.testing.live_rooms import ASKED, RUN, Words
from jamcore.testing.servers.script import Call, Match, Rule, Script, Text

LIMIT_S = 600.0


def script(call: Callable[[str, str], Call], words: Iterable[Words], command: str = "") -> Script:
    """Return a model that does what the live tests ask for.

    Args:
        call: Makes the provider's own call of a shell command, from the command and the call's id.
        words: What the rooms are told.
        command: What is run where a test asks for one command; the model does not read it out of the message.
    """
    rules: list[Rule] = []
    for number, each in enumerate(words):
        rules.append(Rule(match=Match(last_user_contains=ASKED, body_regex=each.spoken), answer=(Text(deltas=(each.spoken,)),)))
        rules.extend(_running(call(each.write, f"call_write_{number}"), each.told))
    if command:
        rules.extend(_running(call(command, "call_run"), RUN))
    return Script(rules=tuple(rules))


def _running(call: Call, said: str) -> tuple[Rule, Rule]:
    return (
        Rule(match=Match(last_user_contains=said, last_is_tool_output=True), answer=(Text(deltas=("done",)),)),
        Rule(match=Match(last_user_contains=said), answer=(call,)),
    )


def play(entry: LiveTest, root: Path, origin: str, **environment: str) -> str:
    """Run one registered live test with both switches and a stand-in for its endpoint, and return what pytest printed.

    Raises:
        AssertionError: It did not pass; with the end of what was printed.
    """
    switches = {SWITCH: "1", entry.opt_in: "1", ENDPOINT: origin}
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", entry.nodeid)
    done = subprocess.run(
        argv, cwd=root, env={**os.environ, **switches, **environment}, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout
