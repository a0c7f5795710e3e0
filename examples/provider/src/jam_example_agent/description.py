"""What ExampleAgent is to Jam: its cells, its program, its credential. Facts only, the same at every call."""

from __future__ import annotations

from jamcore.api import DEDICATED_MANAGED_CELLS, SHARED_CELL, CredentialSpec, ProviderDescription

from jam_example_agent.agent import VERSION

NAME = "example_agent"
TITLE = "ExampleAgent"

# Where the model is, unless a person names another endpoint. The guest reaches nothing else, and that through Jam's relay alone.
ORIGIN = "https://api.example.com"

# The secret itself never comes into the guest, nor into this plugin: the relay adds it to each request, for this origin alone.
CREDENTIAL = CredentialSpec(
    name="example_agent",
    environment_names=("EXAMPLE_AGENT_API_KEY",),
    header="authorization",
    prefix="Bearer ",
    origin=ORIGIN,
)

DESCRIPTION = ProviderDescription(
    name=NAME,
    title=TITLE,
    # The combinations of configuration, workspace and placement in which the program was tried. Name fewer rather than more: each
    # one is a promise that the suite examines. FULL_CELLS are all seven.
    cells=DEDICATED_MANAGED_CELLS | {SHARED_CELL},
    # A real program is pinned here by version and digest (ToolchainSpec), is installed by `jam provider install`, and lies in the
    # guest at RuntimeRequest.tools_root, where nobody can change it. The tiny agent is a part of the plugin instead.
    toolchain=None,
    credential=CREDENTIAL,
    default_origin=ORIGIN,
    # Whether a conversation comes back after the process is gone. If not: DeclaredProvider instead of ResumableProvider.
    continuity=True,
    # Whether one process serves several sessions at the same time, each in a directory of its own.
    threads_share_process=True,
    # Whether the agent can ask before it acts.
    approvals=True,
)

SEATS = 8
"""Sessions that one process may serve. Measure the memory of yours."""

# The version of the program that this plugin was tested with, and older ones whose conversations that was seen to resume.
PINNED = VERSION
RESUMES: frozenset[str] = frozenset()
