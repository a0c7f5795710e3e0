"""Which of Codex's files make a conversation, and which version may read which (CONT-3, CONT-5, CONT-7).

A rollout is the one file that a resume needs, and it only ever grows. Everything else under Codex's home is rebuilt or scratch.
"""

from __future__ import annotations

import re

from jam_codex.pins import RESUMES, VERSION
from jam_codex.plan import SQLITE_DIRECTORY
from jamcore.api import ActivationPlan, CaptureEntry, CaptureKind, CaptureList

ROLLOUTS = "sessions/**/rollout-*.jsonl"
ARCHIVED = "archived_sessions/**/rollout-*.jsonl"

CAPTURE = CaptureList(
    entries=(
        CaptureEntry(pattern=ROLLOUTS, kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern=ARCHIVED, kind=CaptureKind.APPEND_ONLY),
    ),
    guest_scratch=(SQLITE_DIRECTORY,),
    credential_patterns=("**/auth.json", "**/.credentials.json", "**/*.pem", "**/*.key"),
    # A rollout's name ends in its thread's id.
    conversation_patterns=("sessions/**/rollout-*-{identity}.jsonl", "archived_sessions/**/rollout-*-{identity}.jsonl"),
)

ACTIVATION = ActivationPlan(
    # Databases beside an older rollout diverge from it silently; the rest would change how the restored thread starts.
    delete=(
        "*.sqlite",
        "*.sqlite-wal",
        "*.sqlite-shm",
        "db-backups/**",
        "thread-writer-locks/**",
        "shell_snapshots/**",
        "*.config.toml",
        "hooks.json",
        "AGENTS.md",
        "AGENTS.override.md",
    ),
    check=(ROLLOUTS,),
)

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")


def accepts_version(captured: str, current: str) -> bool:
    """Whether Codex ``current`` may resume what ``captured`` wrote.

    Yes for the same version, for an older patch of the same release, and for what this pin was seen to resume. Never for something
    newer than the program: it may not know what it reads. The resume itself is proven again by the reported identity.
    """
    if captured == current:
        return True
    if current == VERSION and captured in RESUMES:
        return True
    old, new = _VERSION.match(captured), _VERSION.match(current)
    if old is None or new is None:
        return False  # a pre-release reads only its own
    (*old_line, old_patch), (*new_line, new_patch) = map(int, old.groups()), map(int, new.groups())
    return old_line == new_line and old_patch <= new_patch
