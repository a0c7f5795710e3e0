"""What the scripted model says in the demo. Every text, command and file content carries a token made for this run."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from jamcore.testing.servers.history import AssistantText, Item, ToolCall, ToolOutput, UserText
from jamcore.testing.servers.script import Call, Hold, Match, Rule, Script, Text

PROVIDER_GATE = "provider-killed"
DAEMON_GATE = "daemon-killed"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn of the demo: what the person says, the commands that the model runs, and its answer (in two deltas)."""

    said: str
    commands: tuple[tuple[str, str], ...]
    answer: tuple[str, str]
    gate: str | None = None

    def rules(self) -> tuple[Rule, ...]:
        """Return the model's side: one rule for each command, then the answer."""
        rules = []
        for place, (call_id, command) in enumerate(self.commands):
            match = Match(last_user_contains=self.said) if place == 0 else Match(tool_output=self.commands[place - 1][0])
            call = Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)
            rules.append(Rule(match=match, answer=(call,), times=1))
        last = Match(tool_output=self.commands[-1][0]) if self.commands else Match(last_user_contains=self.said)
        hold = Hold(gate=self.gate, after=1) if self.gate else None
        rules.append(Rule(match=last, answer=(Text(deltas=self.answer, hold=hold),), times=1))
        return tuple(rules)


@dataclass(frozen=True, slots=True)
class Play:
    """All exchanges of one run."""

    exchanges: tuple[Exchange, ...]
    secret: str
    tokens: tuple[str, ...]

    def script(self) -> Script:
        """Return the model server's script. Later exchanges come first: an earlier rule must not catch their requests."""
        return Script(rules=tuple(rule for exchange in reversed(self.exchanges) for rule in exchange.rules()))


def write_play() -> Play:
    """Make a play with fresh tokens."""
    token = tuple(f"jam-{secrets.token_hex(6)}" for _ in range(10))
    secret = f"sk-demo-{secrets.token_hex(16)}"
    patch = (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: greeting.py\n@@\n-    return \"helo\"\n"
        f'+    return "hello {token[1]}"\n*** End Patch\nEOF'
    )
    # The credential must be nowhere that the guest can look. The decoy shows that the look would find it: exactly one hit.
    look = (
        "printf 'sk-demo-%s' 0decoy > /tmp/decoy; n=$( { cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; "
        "grep -rhs sk-demo- /jam/state /jam/work /home/agent /etc /run /tmp; } 2>/dev/null "
        "| tr '\\0' '\\n' | grep -ac 'sk-demo-[0-9a-f]'); echo \"found=$n;\""
    )
    return Play(
        exchanges=(
            Exchange(
                said=f"Fix the greeting and leave a note. {token[0]}",
                commands=(
                    ("call_note", f"printf '%s\\n' {token[2]} > note.txt && cat note.txt"),
                    ("call_patch", patch),
                    ("call_secret", look),
                ),
                answer=("The greeting is fixed, ", f"the note is written. {token[3]}"),
            ),
            Exchange(
                said=f"Add a test. {token[4]}",
                commands=(("call_test", f"echo 'assert True  # {token[5]}' > test_greeting.py && cat test_greeting.py"),),
                answer=("The test is ", "never announced."),
                gate=PROVIDER_GATE,
            ),
            Exchange(
                said=f"Add a changelog. {token[6]}",
                commands=(("call_log", f"echo {token[7]} > CHANGES && cat CHANGES"),),
                answer=("The changelog is ", "never announced."),
                gate=DAEMON_GATE,
            ),
            Exchange(said=f"What have you done so far? {token[8]}", commands=(), answer=("All of it: ", token[9])),
        ),
        secret=secret,
        tokens=token,
    )


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the last request must hold, and whether it does, at its place in the order."""

    what: str
    found: bool


def prove_history(play: Play, body: tuple[Item, ...]) -> tuple[Check, ...]:
    """Look for every earlier user text, tool call and tool result, in order, in what the model received last (CONT-1).

    What is looked for comes from the play and its tokens, not from earlier requests, so a history that was lost twice is not
    mistaken for one that was kept. The answer of a cut turn must be absent: its provider was killed before it was finished.
    """
    rest = iter(body)
    checks = []
    for exchange in play.exchanges:
        checks.append(Check(f"user: {exchange.said}", any(item == UserText(exchange.said) for item in rest)))
        for call_id, _command in exchange.commands:
            checks.append(Check(f"call: {call_id}", any(isinstance(i, ToolCall) and i.call_id == call_id for i in rest)))
            checks.append(Check(f"result of {call_id}", any(_is_result(i, call_id, play.tokens) for i in rest)))
        answer = AssistantText("".join(exchange.answer))
        if exchange.gate is None and exchange is not play.exchanges[-1]:
            checks.append(Check(f"answer: {answer.text}", any(item == answer for item in rest)))
        if exchange.gate is not None:
            checks.append(Check(f"no answer was made up for: {exchange.said}", answer not in body))
    return tuple(checks)


def _is_result(item: Item, call_id: str, tokens: tuple[str, ...]) -> bool:
    """Whether an item is the result of a call; a command that prints a token must have printed it."""
    if not isinstance(item, ToolOutput) or item.call_id != call_id:
        return False
    expected = {"call_note": tokens[2], "call_test": tokens[5], "call_log": tokens[7], "call_secret": "found=1;"}.get(call_id, "")
    return expected in item.output
