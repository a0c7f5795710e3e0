"""ExampleAgent's part of a plan: directories, variables, requests to its model. It touches nothing."""

from __future__ import annotations

from jamcore.api import PlanContext, PlanContribution

# Below the state root, which Jam keeps for the provider and from which it makes checkpoints.
THREADS = "threads"

# All that the program asks of the endpoint, exactly. The relay refuses everything else.
ENDPOINT_PATHS = ("POST /v1/chat/completions",)


def contribute(context: PlanContext) -> PlanContribution:
    """Return the contribution. `context` says which cell it is, what the engine can do, and where things lie in the guest."""
    return PlanContribution(
        agent_image="example_agent",
        state_subdirectories=(THREADS,),
        # Variables that the program needs; never a secret. The tiny agent needs none. Turn off telemetry and updates here.
        environment=(),
        endpoint_paths=ENDPOINT_PATHS,
    )
