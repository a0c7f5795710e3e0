"""A check that compares with words of the author's program names the attribute in which the author declares them.

Whoever reads only that a text is not in another looks for the fault in the plugin, where the declaration is what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from jamcore.testing.mutants.mutation import CONFTEST, Edit, place

APPROVALS, FAULTS, RESUME, TURNS = (f"tests/test_{name}.py" for name in ("approvals", "model_faults", "resume", "turns"))
REFUSED_BY = 'refused_by = frozenset({"thread/load"})'
WRONG = (
    Edit(APPROVALS, 'denied = "not allowed"', 'denied = "no such words"'),
    Edit(FAULTS, "HttpFault(status=400), TurnFailure.BAD_REQUEST", "HttpFault(status=400), TurnFailure.OTHER"),
    Edit(RESUME, REFUSED_BY, f'{REFUSED_BY}\ncredential = "of-a/login.json"\ncut_output = "no such words"'),
    Edit(
        TURNS,
        'cut_mark = \'"interrupted"\'\ntold_of_interrupt = ("interrupted",)',
        'cut_mark = "no such words"\ntold_of_interrupt = ("no such words",)\nheaders = (("authorization", "no such words"),)',
    ),
    Edit(CONFTEST, "toolchain=None,", "toolchain=None,\nloud=AcmePlugin,"),
)
"""What the good plugin's tests declare, and what is not so."""
NAMED: Mapping[str, str] = MappingProxyType(
    {
        "test_approvals.py::TestApprovals::test_what_is_denied_is_not_done_and_the_model_is_told": (
            "TestApprovals.denied is 'no such words'"
        ),
        "test_model_faults.py::TestModelFaults::test_a_fault_ends_the_turn_with_its_code_and_the_thread_goes_on[400]": (
            "TestModelFaults.ended says"
        ),
        "test_resume.py::TestResume::test_what_is_captured_holds_no_database_and_no_credential": (
            "TestResume.credential is 'of-a/login.json', and `credential_patterns` "
        ),
        "test_resume.py::TestResume::test_a_command_cut_by_the_kill_is_told_to_the_model_as_interrupted": (
            "TestResume.cut_output is 'no such words'"
        ),
        "test_turns.py::TestTurns::test_leaving_a_turn_early_interrupts_it": "TestTurns.told_of_interrupt is ('no such words',)",
        "test_turns.py::TestTurns::test_closing_the_runtime_in_a_command_leaves_no_process": "TestTurns.cut_mark is 'no such words'",
        "test_turns.py::TestTurns::test_only_tools_that_a_sandbox_can_have_are_offered": "TestTurns.headers is (('authorization',",
        "test_turns.py::TestLoopback::test_the_name_server_hears_the_program_when_it_does_ask": "TestLoopback.vendors is ()",
    }
)
"""What each check says of it."""


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
def test_a_failure_names_the_attribute_that_declares_the_programs_words(tmp_path: Path) -> None:
    """With what it is, and what the program said instead; and a control that would listen for nothing is refused."""
    source = place(tmp_path, *WRONG)
    argv = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        *(f"tests/{name}" for name in NAMED),
    ]
    environment = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    failures = [line for line in done.stdout.splitlines() if line.startswith("E ")]
    assert f"{len(NAMED)} failed" in done.stdout, done.stdout[-2000:]
    assert [name for name, words in NAMED.items() if not any(words in line for line in failures)] == [], done.stdout
