"""Which of Codex's files make a conversation (CONT-3, CONT-5).

A rollout is the one file that a resume needs, and it only ever grows. Everything else under Codex's home is rebuilt or scratch.
"""

from __future__ import annotations

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
