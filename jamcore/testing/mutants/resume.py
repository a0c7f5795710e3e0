"""Mutants whose threads come back otherwise than they were, or where none should."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, DESCRIPTION, OPENING, RUNTIME, Base, Edit, Mutant

PART = "ProviderResume"
WHEN_LOADED = 'self.settle(conversation, params)\nreturn {"thread": identity'
"""The place in the program where a thread is whole again."""
KEEP_TURN = 'conversation.keep("turn", turn=params["turn"], text=params["text"])'
IF_DAMAGED = """\
if rest or not lines or not whole or self.records[0].get("thread") != self.identity:
    raise Refused("the thread's file is damaged, and something that was said would be missing")"""


PROCESS_EACH = Base(
    "a-process-for-each-thread",
    (
        Edit(DESCRIPTION, "threads_share_process=True", "threads_share_process=False"),
        Edit(
            RUNTIME,
            'answer = await self.ask("thread/load",',
            """\
if identity in self._threads:
    raise ProviderRefusedError(provider=NAME, request="thread/load", detail="the thread is loaded already")
answer = await self.ask("thread/load",""",
        ),
    ),
)

MUTANTS = (
    Mutant(
        "begins-a-thread-for-a-name-that-it-does-not-know",
        f"{PART}.test_an_unknown_thread_is_refused_and_no_other_is_begun",
        (
            Edit(
                AGENT,
                'if not IDENTITY.match(identity):\n    raise Refused("there is no such thread")',
                "if not IDENTITY.match(identity):\n    return self.begin(params)",
            ),
        ),
    ),
    Mutant(
        "begins-a-thread-without-a-turn-anew",
        f"{PART}.test_a_thread_killed_before_its_first_turn_comes_back_empty_or_not_at_all",
        (
            Edit(
                AGENT,
                'return {"thread": conversation.identity}',
                'conversation.path.with_suffix(".begun").touch()\nreturn {"thread": conversation.identity}',
            ),
            Edit(
                AGENT,
                "try:\n    conversation.load()",
                """\
if conversation.path.with_suffix(".begun").exists():
    return self.begin(params)
try:
    conversation.load()""",
            ),
            Edit(
                AGENT,
                'self.file = self.path.open("x+b", buffering=0)',
                'self.path.with_suffix(".begun").unlink()\nself.file = self.path.open("x+b", buffering=0)',
            ),
        ),
    ),
    Mutant(
        "two-programs-write-one-thread",
        f"{PART}.test_a_thread_that_another_program_holds_is_refused",
        (
            Edit(
                AGENT,
                'self.file = self.path.open("r+b", buffering=0)\nfcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)',
                'self.file = self.path.open("r+b", buffering=0)',
            ),
        ),
    ),
    Mutant(
        "loads-a-thread-twice",
        f"{PART}.test_a_thread_that_is_loaded_is_not_loaded_again",
        (
            Edit(
                RUNTIME,
                "if identity in self._threads:\n    raise ProviderRefusedError",
                "if False:\n    raise ProviderRefusedError",
            ),
        ),
        PROCESS_EACH,
    ),
    Mutant(
        "passes-over-a-hole-in-the-file",
        f"{PART}.test_what_is_damaged_is_refused_and_left_as_it_is",
        (Edit(AGENT, 'whole = [record["n"] for record in self.records] == list(range(len(lines)))', "whole = True"),),
    ),
    Mutant(
        "mends-the-file-that-it-refuses",
        f"{PART}.test_what_is_damaged_is_refused_and_left_as_it_is",
        (Edit(AGENT, IF_DAMAGED, f"self.file.truncate(self.path.stat().st_size - len(rest))\n{IF_DAMAGED}"),),
    ),
    Mutant(
        "keeps-the-half-answer-of-a-cut-turn",
        f"{PART}.test_a_thread_killed_in_a_turn_comes_back_exactly",
        (
            Edit(AGENT, "text += said", 'text += said\nself.conversation.keep("half", item=item, text=said)'),
            Edit(
                AGENT,
                IF_DAMAGED,
                f"""\
{IF_DAMAGED}
whole_ones = {{record["item"] for record in self.of("answer")}}
for record in self.of("half"):
    if record["item"] not in whole_ones:
        record.update(kind="answer", calls=[], tokens=[0, 0])""",
            ),
        ),
    ),
    Mutant(
        "says-that-a-cut-turn-failed",
        f"{PART}.test_a_thread_killed_in_a_turn_comes_back_exactly",
        (
            Edit(
                AGENT,
                'ends.get(record["turn"], "interrupted")',
                'ends.get(record["turn"], "failed" if record is self.records[-1] else "interrupted")',
            ),
        ),
    ),
    Mutant(
        "needs-a-journal-that-is-not-captured",
        f"{PART}.test_what_is_captured_alone_brings_the_thread_back",
        (
            Edit(AGENT, KEEP_TURN, f'{KEEP_TURN}\nconversation.path.with_suffix(".journal").write_text(params["text"])'),
            Edit(
                AGENT,
                WHEN_LOADED,
                f"""\
cut = len(conversation.of("turn")) > len(conversation.of("end"))
if cut and not conversation.path.with_suffix(".journal").exists():
    raise Refused("the journal of the turn that was cut is not there")
{WHEN_LOADED}""",
            ),
        ),
    ),
    Mutant(
        "needs-the-file-of-a-sibling",
        f"{PART}.test_the_files_of_one_conversation_bring_it_back_without_its_sibling",
        (
            Edit(
                AGENT,
                'self.keep("thread", thread=self.identity, version=VERSION)',
                """\
self.keep("thread", thread=self.identity, version=VERSION, before=IDENTITIES[-1:])
IDENTITIES.append(self.identity)""",
            ),
            Edit(AGENT, 'MODEL = "acme-1"', 'MODEL = "acme-1"\nIDENTITIES: list[str] = []'),
            Edit(
                AGENT,
                WHEN_LOADED,
                f"""\
for before in conversation.records[0]["before"]:
    if not self.directory.joinpath(f"{{before}}.jsonl").exists():
        raise Refused("the thread before this one is not there")
{WHEN_LOADED}""",
            ),
        ),
    ),
    Mutant(
        "writes-the-file-anew",
        f"{PART}.test_what_is_declared_append_only_only_ever_grows",
        (
            Edit(
                AGENT,
                WHEN_LOADED,
                f"""\
conversation.records[0]["model"] = params["model"]
conversation.path.write_text("".join(json.dumps(record) + "\\n" for record in conversation.records))
{WHEN_LOADED}""",
            ),
        ),
    ),
    Mutant(
        "has-a-database-in-the-state-root",
        f"{PART}.test_what_is_captured_holds_no_database_and_no_credential",
        (Edit(AGENT, KEEP_TURN, f'{KEEP_TURN}\nself.directory.joinpath("index").write_bytes(b"SQLite format 3\\0")'),),
    ),
    Mutant(
        "leaves-a-login-in-the-state-root",
        f"{PART}.test_what_is_captured_holds_no_database_and_no_credential",
        (Edit(AGENT, KEEP_TURN, f'{KEEP_TURN}\nself.directory.joinpath("auth.json").write_text("{{}}")'),),
    ),
    Mutant(
        "reads-instructions-that-the-agent-can-write",
        f"{PART}.test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it",
        (
            Edit(
                AGENT,
                "said: list[dict[str, Any]] = []",
                """\
said: list[dict[str, Any]] = []
instructions = self.path.parent.with_name("instructions.md")
if instructions.exists():
    said.append({"role": "system", "content": instructions.read_text()})""",
            ),
        ),
    ),
    Mutant(
        "ends-at-settings-that-it-cannot-read",
        f"{PART}.test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it",
        (
            Edit(
                AGENT,
                "self.directory, self.relay = directory, relay",
                """\
self.directory, self.relay = directory, relay
settings = directory.with_name("config.json")
self.settings = json.loads(settings.read_text()) if settings.exists() else {}""",
            ),
        ),
    ),
    Mutant(
        "imports-what-lies-where-it-starts",
        f"{PART}.test_files_that_the_agent_writes_cannot_lock_it_out_or_redirect_it",
        (Edit(OPENING, '"python3", "-I", "-c"', '"python3", "-c"'),),
    ),
    Mutant(
        "trims-what-a-person-says",
        f"{PART}.test_the_last_text_is_known_by_its_digest",
        (Edit(AGENT, KEEP_TURN, 'conversation.keep("turn", turn=params["turn"], text=params["text"].strip())'),),
    ),
    Mutant(
        "says-that-a-cut-command-was-done",
        f"{PART}.test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted",
        (
            Edit(
                AGENT,
                WHEN_LOADED,
                f"""\
known = {{record["call"] for record in conversation.of("output")}}
for call in [call for record in conversation.of("answer") for call in record["calls"]]:
    if call["id"] not in known:
        conversation.keep("output", call=call["id"], output="done")
{WHEN_LOADED}""",
            ),
        ),
    ),
)
