"""Mutants that believe their program, or wait for it without end."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import OPENING, PLUGIN, RUNTIME, Base, Edit, Mutant

PART = "ProviderBadPrograms"
STAND_IN = "tests/test_bad_programs.py"

ANSWERED = Base(
    "an-interrupt-that-is-answered",
    (
        Edit(
            RUNTIME,
            """\
await self._connection.notify("interrupt", {"thread": thread.identity, "turn": turn.provider_turn})
await turn.over.wait()""",
            """\
async with anyio.create_task_group() as tasks:
    tasks.start_soon(self._connection.request, "interrupt", {"thread": thread.identity, "turn": turn.provider_turn})
    await turn.over.wait()
    tasks.cancel_scope.cancel()""",
        ),
        Edit(STAND_IN, "#interrupt\n", "#interrupt\nanswer({})\n"),
        Edit(
            STAND_IN,
            "stray = (",
            """\
unanswered = {"interrupt": 'told("turn/ended", outcome="interrupted"); continue'}
stray = (""",
        ),
    ),
)

MUTANTS = (
    Mutant(
        "takes-any-answer-for-a-thread",
        f"{PART}.test_nonsense_instead_of_a_thread",
        (
            Edit(
                RUNTIME,
                'identity = reported_identity(member(answer, "thread"), provider=NAME)',
                'identity = text(member(answer, "thread"))',
            ),
        ),
    ),
    Mutant(
        "takes-nonsense-for-an-end",
        f"{PART}.test_nonsense_in_a_turn_cuts_it_after_what_was_delivered",
        (
            Edit(
                RUNTIME,
                "self.end(error, *(thread.turn for thread in self._threads.values()))",
                "self.end(ProviderGoneError(provider=NAME, detail=str(error)), *(t.turn for t in self._threads.values()))",
            ),
        ),
    ),
    Mutant(
        "comes-up-without-a-version",
        f"{PART}.test_a_program_that_does_not_come_up",
        (Edit(RUNTIME, "if not version:", "if False:"),),
    ),
    Mutant(
        "takes-any-version",
        f"{PART}.test_another_version_than_the_pinned_one_is_refused",
        (
            Edit(
                RUNTIME, 'self.require_version(version, expected_version, "hello")', 'self.require_version(version, None, "hello")'
            ),
        ),
    ),
    Mutant(
        "takes-an-absent-program-for-one-that-ended",
        f"{PART}.test_a_program_that_is_not_there",
        (
            Edit(OPENING, "LineClient, ProviderRuntime,", "LineClient, ProviderGoneError, ProviderRuntime,"),
            Edit(
                OPENING,
                "process = await launcher.start(argv, cwd=request.start_directory)",
                """\
try:
    process = await launcher.start(argv, cwd=request.start_directory)
except Exception as error:
    raise ProviderGoneError(provider=NAME, detail=str(error)) from error""",
            ),
        ),
    ),
    Mutant(
        "warms-up-outside-its-context",
        f"{PART}.test_the_plugin_opens_nothing_before_its_context_is_entered",
        (
            Edit(PLUGIN, "import AbstractAsyncContextManager", "import AbstractAsyncContextManager, suppress"),
            Edit(
                PLUGIN,
                "return open_runtime(request, launcher, self._program)",
                """\
with suppress(Exception):  # there may be no guest yet
    await launcher.start(("/usr/bin/env", "true"), cwd=request.start_directory)
return open_runtime(request, launcher, self._program)""",
            ),
        ),
    ),
    Mutant(
        "calls-a-wrong-thread-the-wanted-one",
        f"{PART}.test_another_identity_is_returned_as_it_is",
        (
            Edit(
                RUNTIME,
                "self._threads.pop(identity, None)\nreturn ThreadState(identity=reported)",
                """\
self._threads.pop(identity, None)
return ThreadState(identity=reported if reported in self._threads else identity)""",
            ),
        ),
    ),
    Mutant(
        "talks-on-in-a-wrong-thread",
        f"{PART}.test_another_identity_is_returned_as_it_is",
        (Edit(RUNTIME, "if reported != identity:", "if reported != identity and reported in self._threads:"),),
    ),
    Mutant(
        "ends-the-turn-of-a-sibling-that-came-back-instead",
        f"{PART}.test_a_siblings_identity_leaves_the_sibling_alone",
        (
            Edit(
                RUNTIME,
                "self._threads.pop(identity, None)\nreturn ThreadState(identity=reported)",
                """\
self._threads.pop(identity, None)
if (sibling := self._threads.get(reported)) is not None and sibling.turn is not None:
    sibling.turn.fail(ProviderProtocolError(provider=NAME, problem="another thread than the wanted one"))
return ThreadState(identity=reported)""",
            ),
        ),
    ),
    Mutant(
        "waits-for-the-answer-to-an-interrupt",
        f"{PART}.test_an_interrupt_that_is_never_answered_still_ends_with_the_turn",
        (Edit(RUNTIME, "tasks.cancel_scope.cancel()", "pass"),),
        ANSWERED,
    ),
    Mutant(
        "waits-long-for-a-program-that-hangs",
        f"{PART}.test_a_program_that_hangs_is_left_within_bounds",
        (Edit(OPENING, "shutdown_s=request.shutdown_s", "shutdown_s=30.0"),),
    ),
    Mutant(
        "takes-what-is-of-another-turn",
        f"{PART}.test_what_is_of_other_threads_and_turns_is_not_mixed_in",
        (
            Edit(
                RUNTIME,
                'return turn if turn is not None and identifier(params.get("turn")) == turn.provider_turn else None',
                "return turn",
            ),
        ),
    ),
    Mutant(
        "takes-what-is-of-another-thread",
        f"{PART}.test_what_is_of_other_threads_and_turns_is_not_mixed_in",
        (
            Edit(
                RUNTIME,
                'thread = self._threads.get(identifier(params.get("thread")))',
                'thread = self._threads.get(identifier(params.get("thread"))) or next(iter(self._threads.values()), None)',
            ),
        ),
    ),
)
