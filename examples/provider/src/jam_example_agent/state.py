"""Which of ExampleAgent's files make a conversation, and which version may read which."""

from __future__ import annotations

from jamcore.api import ActivationPlan, CaptureEntry, CaptureKind, CaptureList, may_resume

from jam_example_agent.description import PINNED, RESUMES
from jam_example_agent.plan import THREADS

TRANSCRIPTS = f"{THREADS}/*.jsonl"

CAPTURE = CaptureList(
    # Only what a resume needs. Locks, caches, configuration and credentials are never captured. APPEND_ONLY is a promise: the suite
    # holds the program to it, and Jam then copies only what was added. WHOLE is for files that change in other ways. A database
    # lies below the guest's home and is declared as DATABASE.
    entries=(CaptureEntry(pattern=TRANSCRIPTS, kind=CaptureKind.APPEND_ONLY),),
    # What looks like a credential below the state root. A captured file that matches refuses the checkpoint.
    credential_patterns=("**/auth.json", "**/*.key", "**/*.pem"),
    # The files of one conversation alone, so that one session of a shared host can be exported without the others.
    conversation_patterns=(f"{THREADS}/{{identity}}.jsonl",),
)

ACTIVATION = ActivationPlan(
    # What must not lie beside a restored conversation because it would disagree with it: indexes, caches, locks.
    delete=("cache/**",),
    # Of each of these at least one file must be there after a restore.
    check=(TRANSCRIPTS,),
)


def accepts_version(captured: str, current: str) -> bool:
    """Whether the program `current` may resume what `captured` wrote: its own, or what it was seen to resume. In doubt, no."""
    return may_resume(captured, current, pinned=PINNED, seen=RESUMES)
