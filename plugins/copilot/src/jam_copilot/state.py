"""Which of Copilot's files make a conversation (CONT-3, CONT-5).

The journal of events is the one file that a resume needs, and it only ever grows. Everything else is rebuilt, a lock, or scratch.
"""

from __future__ import annotations

from jam_copilot.plan import SESSIONS
from jamcore.api import ActivationPlan, CaptureEntry, CaptureKind, CaptureList

EVENTS = f"{SESSIONS}/*/events.jsonl"

CAPTURE = CaptureList(
    entries=(CaptureEntry(pattern=EVENTS, kind=CaptureKind.APPEND_ONLY),),
    credential_patterns=("**/config.json", "**/*.pem", "**/*.key"),
    conversation_patterns=(f"{SESSIONS}/{{identity}}/events.jsonl",),
)

ACTIVATION = ActivationPlan(
    # Locks name processes that are gone; databases and workspaces beside an older journal diverge from it; the rest would configure.
    delete=(
        f"{SESSIONS}/*/inuse.*",
        f"{SESSIONS}/*/workspace.yaml",
        f"{SESSIONS}/*/checkpoints/**",
        f"{SESSIONS}/*/*.db",
        f"{SESSIONS}/*/*.db-*",
        f"{SESSIONS}/.session-operation-locks/**",
        "*.db",
        "*.db-*",
        "*.json",
        "hooks/**",
        "copilot-instructions.md",
    ),
    check=(EVENTS,),
)
