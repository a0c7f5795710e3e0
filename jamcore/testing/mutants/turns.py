"""Mutants whose turns are not what a turn is."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, CONFTEST, EVENTS, RUNTIME, Edit, Mutant

PART = "ProviderTurns"
IMPATIENT = Edit(CONFTEST, "model=", "limit_s=5.0,\nmodel=")
"""Where a fault is that something never comes, the suite need not wait for it as long as for a real program."""
LEAVES = (
    Edit(RUNTIME, "turn: TurnStream | None = None", "turn: TurnStream | None = None\nleaves: bool = False"),
    Edit(RUNTIME, "turn.running(partial(self._stop, thread, turn)", "turn.running(partial(self._leave, thread, turn)"),
    Edit(
        RUNTIME,
        "async def _send(",
        "async def _leave(self, thread: _Thread, turn: TurnStream) -> None:\n"
        "    if not thread.leaves:\n"
        "        await self._stop(thread, turn)\n\n"
        "async def _send(",
    ),
)
"""Its turns go on for nobody where a thread ``leaves``."""
MUTANTS = (
    Mutant(
        "message-is-of-another-item",
        f"{PART}.test_a_turn_is_typed_and_in_order",
        (Edit(AGENT, 'self.tell("message", item=answer["item"],', 'self.tell("message", item=str(uuid.uuid4()),'),),
    ),
    Mutant(
        "reports-what-one-request-cost",
        f"{PART}.test_a_turn_is_typed_and_in_order",
        (Edit(AGENT, 'in self.conversation.of("answer")]', 'in self.conversation.of("answer")[-1:]]'),),
    ),
    Mutant(
        "shows-no-diff",
        f"{PART}.test_a_turn_is_typed_and_in_order",
        (Edit(EVENTS, 'diff=text(params.get("diff"))', 'diff=""'),),
    ),
    Mutant(
        "loses-the-exit-status",
        f"{PART}.test_a_turn_is_typed_and_in_order",
        (Edit(EVENTS, 'exit_code=whole(params.get("exit_code"))', 'exit_code=0 if params.get("exit_code") == 0 else None'),),
    ),
    Mutant(
        "cuts-inside-a-character",
        f"{PART}.test_an_output_that_is_cut_inside_a_character_harms_nothing",
        (
            Edit(
                AGENT,
                'output.decode(errors="replace")',
                'output.decode(errors="replace").encode("utf-16-le")[: 2 * 9_999].decode("utf-16-le", "surrogatepass")',
            ),
            Edit(AGENT, "json.dumps(message).encode()", "json.dumps(message, ensure_ascii=False).encode()"),
        ),
    ),
    Mutant(
        "starts-when-the-model-speaks",
        f"{PART}.test_a_turn_starts_also_while_the_model_is_silent",
        (
            IMPATIENT,
            Edit(AGENT, 'self.tell("turn/started")\noutcome', "outcome"),
            Edit(
                AGENT,
                "def run(self) -> None:",
                "begun = False\n\n"
                "def begin(self) -> None:\n"
                "    if not self.begun:\n"
                '        self.tell("turn/started")\n'
                "    self.begun = True\n\n"
                "def run(self) -> None:",
            ),
            Edit(AGENT, "for chunk in _chunks(response):", "for chunk in _chunks(response):\n    self.begin()"),
            Edit(AGENT, "except ModelFailed as error:\n    if self", "except ModelFailed as error:\n    self.begin()\n    if self"),
        ),
    ),
    Mutant(
        "keeps-the-message-elsewhere-at-first",
        f"{PART}.test_a_turn_counts_as_started_once_its_message_is_kept",
        (
            Edit(AGENT, 'self.path.open("x+b"', 'self.path.with_suffix(".new").open("x+b"'),
            Edit(
                AGENT,
                "def load(self) -> None:",
                "def settle(self) -> None:\n"
                "    with suppress(OSError):\n"
                '        self.path.with_suffix(".new").rename(self.path)\n\n'
                "def load(self) -> None:",
            ),
            Edit(AGENT, "try:\n    self.file = self.path.open", "self.settle()\ntry:\n    self.file = self.path.open"),
            Edit(AGENT, "for chunk in _chunks(response):", "for chunk in _chunks(response):\n    self.conversation.settle()"),
        ),
    ),
    Mutant(
        "tells-the-first-answer-once-it-is-whole",
        f"{PART}.test_deltas_arrive_while_the_answer_is_being_written",
        (
            IMPATIENT,
            Edit(AGENT, 'item, text = str(uuid.uuid4()), ""', 'item, text, late = str(uuid.uuid4()), "", []'),
            Edit(
                AGENT,
                'self.tell("delta", item=item, text=said)',
                'if self.conversation.of("answer"):\n    self.tell("delta", item=item, text=said)\nelse:\n    late.append(said)',
            ),
            Edit(
                AGENT,
                'return {"item": item,',
                'for said in late:\n    self.tell("delta", item=item, text=said)\nreturn {"item": item,',
            ),
        ),
        also=(
            f"{PART}.test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed",
            "ProviderModelFaults.test_a_stalled_stream_can_be_interrupted",
        ),
        because="They act at the first delta of a thread whose answer the model holds back, and so wait for it.",
    ),
    Mutant(
        "detaches-what-is-put-in-the-background",
        f"{PART}.test_an_interrupt_ends_the_turn_and_the_commands_that_it_left_running",
        (
            Edit(
                AGENT,
                '["/bin/sh", "-c", command]',
                '["/bin/sh", "-c", re.sub(r"(sleep \\d+) & ", r"setsid \\1 >/dev/null & ", command)]',
            ),
        ),
    ),
    Mutant(
        "goes-on-when-its-reader-leaves",
        f"{PART}.test_leaving_a_turn_early_interrupts_it",
        (*LEAVES, Edit(RUNTIME, "yield turn", "yield turn\nthread.leaves = True")),
    ),
    Mutant(
        "goes-on-when-its-reader-is-cancelled",
        f"{PART}.test_cancellation_in_a_turn_interrupts_it",
        (*LEAVES, Edit(RUNTIME, "yield turn", "try:\n    yield turn\nexcept BaseException:\n    thread.leaves = True\n    raise")),
    ),
    Mutant(
        "leaves-a-command-behind-when-it-is-closed",
        f"{PART}.test_closing_the_runtime_in_a_command_leaves_no_process",
        (
            *LEAVES,
            Edit(
                RUNTIME,
                "yield turn",
                "try:\n    yield turn\nexcept BaseException:\n    thread.leaves = self.commands\n    raise",
            ),
            Edit(RUNTIME, "super().__init__(NAME)", "super().__init__(NAME)\nself.commands = False"),
            Edit(
                RUNTIME,
                "turn = self._running(params)\nif turn is not None and (event",
                'turn = self._running(params)\nself.commands |= method == "command/started"\nif turn is not None and (event',
            ),
            Edit(AGENT, "for turn in turns:\n    turn.stop()", "if turns:\n    os._exit(0)"),
        ),
    ),
    Mutant(
        "a-second-text-stops-the-first",
        f"{PART}.test_a_busy_thread_is_refused_and_its_turn_goes_on_undisturbed",
        (
            Edit(
                RUNTIME,
                "if thread is None or thread.turn is not None:",
                "if thread is not None and thread.turn is not None:\n"
                "    await self._stop(thread, thread.turn)\n"
                "if thread is None or thread.turn is not None:",
            ),
        ),
    ),
    Mutant(
        "looks-for-a-thread-that-is-not-loaded",
        f"{PART}.test_a_thread_that_is_not_loaded_is_refused",
        (
            Edit(
                RUNTIME,
                "thread = self._threads.get(identity)\nif thread is None or",
                "if identity not in self._threads:\n"
                '    await self.resume_thread(identity, ThreadRequest(cwd="/", model=None))\n'
                "thread = self._threads.get(identity)\n"
                "if thread is None or",
            ),
        ),
    ),
    Mutant(
        "has-one-directory-for-all-threads",
        f"{PART}.test_two_threads_run_at_the_same_time_in_their_own_directories",
        (
            Edit(AGENT, 'self.cwd, self.model, self.asks = "/", MODEL, False', "self.model, self.asks = MODEL, False"),
            Edit(AGENT, "conversation.cwd, conversation.asks = params", "Conversation.cwd, conversation.asks = params"),
        ),
    ),
    Mutant(
        "offers-a-hosted-tool",
        f"{PART}.test_only_tools_that_a_sandbox_can_have_are_offered",
        (Edit(AGENT, "TOOLS = {", 'TOOLS = {\n    "web_search": ("Search the web.", {"query": "for what"}),'),),
    ),
)
