"""Which of Claude Code's files make a conversation (CONT-3, CONT-5).

A transcript is the one file that a resume needs, and it only ever grows. Beside it lie the outputs that were too long for the conversation,
which the model was told the names of, and what sub-agents said. Everything else in a configuration directory is rebuilt.
"""

from __future__ import annotations

from jam_claude_code.plan import TEMPORARY, THREADS
from jamcore.api import ActivationPlan, CaptureEntry, CaptureKind, CaptureList

TRANSCRIPTS = f"{THREADS}/*/projects/*/*.jsonl"
SUBAGENT_LOGS = f"{THREADS}/*/projects/*/*/subagents/**/*.jsonl"
SUBAGENTS = f"{THREADS}/*/projects/*/*/subagents/**"
RESULTS = f"{THREADS}/*/projects/*/*/tool-results/**"

CAPTURE = CaptureList(
    entries=(
        CaptureEntry(pattern=TRANSCRIPTS, kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern=SUBAGENT_LOGS, kind=CaptureKind.APPEND_ONLY),
        CaptureEntry(pattern=SUBAGENTS, kind=CaptureKind.WHOLE),
        CaptureEntry(pattern=RESULTS, kind=CaptureKind.WHOLE),
    ),
    guest_scratch=(TEMPORARY,),
    credential_patterns=("**/.credentials.json", "**/*.key", "**/*.pem"),
    # A thread's directory is named by its id, and holds nothing of another's.
    conversation_patterns=(
        f"{THREADS}/{{identity}}/projects/*/*.jsonl",
        f"{THREADS}/{{identity}}/projects/*/*/subagents/**",
        f"{THREADS}/{{identity}}/projects/*/*/tool-results/**",
    ),
)

ACTIVATION = ActivationPlan(
    # What would change how the restored thread starts. The plugin removes the same before each start of a program.
    delete=(
        f"{THREADS}/*/.claude.json",
        f"{THREADS}/*/backups/**",
        f"{THREADS}/*/settings.json",
        f"{THREADS}/*/settings.local.json",
        f"{THREADS}/*/sessions/**",
        f"{THREADS}/*/shell-snapshots/**",
        f"{THREADS}/*/session-env/**",
    ),
    check=(TRANSCRIPTS,),
)
