"""Which of Copilot's files make a conversation, and which version may read which (CONT-3, CONT-5, CONT-7).

The journal of events is the one file that a resume needs, and it only ever grows. Everything else is rebuilt, a lock, or scratch.
"""

from __future__ import annotations

from jam_copilot.pins import RESUMES, VERSION
from jam_copilot.plan import SESSIONS
from jamcore.api import ActivationPlan, CaptureEntry, CaptureKind, CaptureList, may_resume

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


def accepts_version(captured: str, current: str) -> bool:
    """Whether Copilot ``current`` may resume what ``captured`` wrote.

    Yes for the same version and for what this pin was seen to resume. The vendor releases a patch most days and changes what a resume
    does in them, so an older patch is a guess. The resume itself is proven again by the reported identity and turns.
    """
    return may_resume(captured, current, pinned=VERSION, seen=RESUMES)
