"""Mutants that do what programs are known to do with conversations that rest."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, Edit, Mutant

PART = "ProviderPitfalls"
KNOWS_THAT_IT_WAS_LOADED = (
    Edit(AGENT, "self.file: BinaryIO | None = None", "self.file: BinaryIO | None = None\nself.loaded = False"),
    Edit(
        AGENT, '*lines, rest = self.file.read().split(b"\\n")', 'self.loaded = True\n*lines, rest = self.file.read().split(b"\\n")'
    ),
)
MUTANTS = (
    Mutant(
        "tells-again-what-was-said-before",
        f"{PART}.test_what_was_said_before_is_not_told_again",
        (
            *KNOWS_THAT_IT_WAS_LOADED,
            Edit(
                AGENT,
                'self.tell("turn/started")',
                """\
self.tell("turn/started")
if self.conversation.loaded:
    for record in self.conversation.of("answer"):
        self.tell("message", item=record["item"], text=record["text"])""",
            ),
        ),
    ),
    Mutant(
        "cleans-old-conversations-away",
        f"{PART}.test_a_conversation_that_rested_for_years_comes_back",
        (
            Edit(AGENT, "import threading", "import threading\nimport time"),
            Edit(
                AGENT,
                "self.directory, self.relay = directory, relay",
                """\
self.directory, self.relay = directory, relay
for path in directory.glob("*.jsonl"):
    if path.stat().st_mtime < time.time() - 30 * 86400:
        path.unlink()""",
            ),
        ),
    ),
    Mutant(
        "begins-a-thread-anew-that-its-index-knows",
        f"{PART}.test_a_thread_whose_files_are_gone_is_not_begun_anew",
        (
            Edit(
                AGENT,
                'self.keep("thread", thread=self.identity, version=VERSION)',
                'self.keep("thread", thread=self.identity, version=VERSION)\nself.path.with_suffix(".known").touch()',
            ),
            Edit(
                AGENT,
                "except Refused:\n    conversation.close()",
                """\
except Refused:
    if conversation.path.with_suffix(".known").exists() and not conversation.path.exists():
        return {"thread": self.settle(conversation, params).identity}
    conversation.close()""",
            ),
        ),
    ),
    Mutant(
        "writes-an-output-down-with-the-next-answer",
        f"{PART}.test_a_tool_whose_output_was_not_written_down_is_said_to_be_unknown",
        (
            Edit(
                AGENT,
                'self.conversation.keep("output", call=item, output=output)',
                'self.conversation.keep("output", call=item, output="")\nself.conversation.records[-1]["output"] = output',
            ),
            Edit(
                AGENT,
                'self.conversation.keep("answer", **answer)',
                """\
if (last := self.conversation.records[-1])["kind"] == "output":
    self.conversation.keep("output", call=last["call"], output=last["output"])
self.conversation.keep("answer", **answer)""",
            ),
        ),
    ),
    Mutant(
        "asks-about-changes-once-it-was-resumed",
        f"{PART}.test_a_thread_that_never_asks_does_not_ask_when_it_is_resumed",
        (
            *KNOWS_THAT_IT_WAS_LOADED,
            Edit(
                AGENT,
                "if not self.conversation.asks:",
                'if not self.conversation.asks and not (self.conversation.loaded and subject == "file-change"):',
            ),
        ),
    ),
)
