"""Mutants that ask about less than they do, do what was denied, or ask where nobody is to be asked."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, EVENTS, RUNTIME, Edit, Mutant

PART = "ProviderApprovals"
MUTANTS = (
    Mutant(
        "does-not-show-what-would-be-written",
        f"{PART}.test_what_is_allowed_is_done",
        (Edit(EVENTS, 'preview=text(params.get("preview")),', ""),),
    ),
    Mutant(
        "asks-twice-about-one-change",
        f"{PART}.test_what_is_allowed_is_done",
        (
            Edit(
                AGENT,
                'if not self.allowed(item, "file-change", f"{change} {place}", diff):',
                'if not all(self.allowed(item, "file-change", f"{change} {place}", diff) for _ in range(2)):',
            ),
        ),
    ),
    Mutant(
        "tells-the-model-that-a-denied-change-is-done",
        f"{PART}.test_what_is_denied_is_not_done_and_the_model_is_told",
        (Edit(AGENT, 'return "the change was not allowed"', 'return "done"'),),
    ),
    Mutant(
        "makes-a-change-and-then-asks",
        f"{PART}.test_what_is_denied_is_not_done_and_the_model_is_told",
        (
            Edit(
                AGENT,
                'if not self.allowed(item, "file-change",',
                'place.write_text(content)\nif not self.allowed(item, "file-change",',
            ),
        ),
    ),
    Mutant(
        "waits-for-an-answer-for-ever",
        f"{PART}.test_an_interrupt_ends_a_turn_that_waits_for_an_answer",
        (Edit(AGENT, "if self._question is not None:", "if False:"),),
    ),
    Mutant(
        "forgets-at-a-resume-that-it-asks",
        f"{PART}.test_a_thread_asks_as_it_is_resumed",
        (Edit(RUNTIME, '{"thread": identity, **_settings(request)}', '{"thread": identity, **_settings(request), "ask": False}'),),
    ),
    Mutant(
        "asks-about-its-first-change-whatever-it-was-told",
        f"{PART}.test_a_thread_that_never_asks_does_not",
        (
            Edit(
                AGENT,
                "if not self.conversation.asks:",
                'if not self.conversation.asks and not (detail.startswith("touch ") and len(self.conversation.of("turn")) == 1):',
            ),
        ),
    ),
)
