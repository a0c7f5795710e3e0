"""Mutants for which a failing model endpoint is not what it is."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, EVENTS, Base, Edit, Mutant

PART = "ProviderModelFaults"
TEST = "tests/test_model_faults.py"
PATIENT = Base(
    "patient",
    (
        Edit(AGENT, "for attempt in range(1, ATTEMPTS + 1):", "for attempt in range(1, 1_000_000):"),
        Edit(AGENT, "or attempt == ATTEMPTS:", "or (attempt == ATTEMPTS and error.status != 503):"),
        Edit(AGENT, "PAUSE_S * attempt", "PAUSE_S"),
        Edit(
            TEST,
            '"503": (HttpFault(status=503), TurnFailure.SERVER_ERROR),\n"cut',
            '"cut',
        ),
        Edit(TEST, "# Faults of which the", 'endless = {"503": HttpFault(status=503)}\n# Faults of which the'),
    ),
)
"""It tries again for as long as the endpoint says that it is overloaded."""
MUTANTS = (
    Mutant(
        "does-not-say-that-the-stream-was-cut",
        f"{PART}.test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on",
        (Edit(EVENTS, '"cut": TurnFailure.STREAM_CUT', '"cut": TurnFailure.OTHER'),),
    ),
    Mutant(
        "is-busy-after-a-failure",
        f"{PART}.test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on",
        (
            Edit(
                AGENT,
                "self.conversation.turn = None\nself.tell",
                'if outcome != "failed":\n    self.conversation.turn = None\nself.tell',
            ),
        ),
    ),
    Mutant(
        "asks-more-often-than-it-says",
        f"{PART}.test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on",
        (Edit(AGENT, "ATTEMPTS = 3", "ATTEMPTS = 4"),),
    ),
    Mutant(
        "calls-an-interrupted-retry-a-failure",
        f"{PART}.test_endless_retries_end_with_an_interrupt_and_the_thread_goes_on",
        (
            Edit(AGENT, "def run(self) -> None:", "tried = False\n\ndef run(self) -> None:"),
            Edit(AGENT, 'self.tell("notice",', 'self.tried = True\nself.tell("notice",'),
            Edit(
                AGENT,
                'except Stopped:\n    outcome = "interrupted"',
                'except Stopped:\n    outcome = "failed" if self.tried else "interrupted"',
            ),
        ),
        PATIENT,
    ),
    Mutant(
        "keeps-what-was-half-said",
        f"{PART}.test_a_passing_fault_is_retried_and_the_half_answer_is_not_kept",
        (
            Edit(AGENT, "def run(self) -> None:", 'half = ""\n\ndef run(self) -> None:'),
            Edit(AGENT, 'item, text = str(uuid.uuid4()), ""', "item, text = str(uuid.uuid4()), self.half"),
            Edit(AGENT, "text += said", "text += said\nself.half = text"),
            Edit(AGENT, 'return {"item": item,', 'self.half = ""\nreturn {"item": item,'),
        ),
    ),
    Mutant(
        "does-not-tell-of-a-retry",
        f"{PART}.test_a_passing_fault_is_retried_and_the_half_answer_is_not_kept",
        (Edit(AGENT, 'self.tell("notice", text=f"The model did not answer ({error.detail}); trying again.")', "pass"),),
    ),
    Mutant(
        "takes-thinking-for-a-fault",
        f"{PART}.test_a_slow_first_byte_is_only_slow",
        (
            Edit(
                AGENT,
                "response = connection.getresponse()",
                "line = connection.sock\nline.settimeout(1.2)\nresponse = connection.getresponse()\nline.settimeout(SILENT_S)",
            ),
            Edit(
                AGENT, 'f"the model said nothing for {SILENT_S:g} s")', 'f"the model said nothing for {SILENT_S:g} s", again=True)'
            ),
        ),
    ),
    Mutant(
        "hears-no-interrupt-in-a-stream",
        f"{PART}.test_a_stalled_stream_can_be_interrupted",
        (
            Edit(
                AGENT,
                'self.tell("delta", item=item, text=said)',
                'self.tell("delta", item=item, text=said)\nself._connected = None',
            ),
        ),
    ),
    Mutant(
        "does-not-say-that-nobody-listens",
        f"{PART}.test_an_unreachable_endpoint_ends_the_turn",
        (Edit(EVENTS, '"unreachable": TurnFailure.UNREACHABLE', '"unreachable": TurnFailure.OTHER'),),
    ),
)
