"""Codex's part of a plan: where its state lies, what it needs of the guest disk, which requests its model endpoint gets (PLAN-5)."""

from __future__ import annotations

from jamcore.api import PlanContext, PlanContribution, Preparation, PreparedFile

AGENT_IMAGE = "codex"
SQLITE_DIRECTORY = ".jam/codex-sqlite"
"""Below the guest's home. Codex's databases are projections that it rebuilds; on the guest disk they are never beside a restored
rollout, where a stale one shows turns that the model does not know (docs/facts-codex.md, section 6)."""

ENDPOINT_PATHS = ("POST /v1/responses",)
"""All that Codex asked of a custom model provider, compaction and failures included; models are not listed."""

CONFIG_FILE = PreparedFile(
    path="config.toml",
    content="# Jam passes Codex's whole configuration as arguments and writes this file anew before each start.\n",
)
"""Empty on purpose: the guest can write here, and a broken or added setting would otherwise decide whether the next resume works."""


def contribute(context: PlanContext) -> PlanContribution:
    """Return the contribution; it is the same for every cell."""
    return PlanContribution(
        agent_image=AGENT_IMAGE,
        state_subdirectories=("sessions",),
        guest_directories=(SQLITE_DIRECTORY,),
        environment=environment(context.state_root),
        endpoint_paths=ENDPOINT_PATHS,
    )


def prepare() -> Preparation:
    """Return the files that must lie in the state root before each start (PREP-3)."""
    return Preparation(files=(CONFIG_FILE,))


def environment(state_root: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that Codex itself needs. The state root is Codex's home."""
    return (("CODEX_HOME", state_root),)


def sqlite_home(home: str) -> str:
    """Return the guest directory of Codex's databases."""
    return f"{home}/{SQLITE_DIRECTORY}"
