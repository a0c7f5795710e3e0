"""Mutants that the suite's declarations find: what is said by hand and what the plugin says are no longer the same."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import CONFTEST, DESCRIPTION, PLAN, PLUGIN, Base, Edit, Mutant

PART = "ProviderDeclarations"
WHEELS = tuple(f'WheelFile(platform="linux-{machine}", sha256="0" * 64)' for machine in ("x86_64", "aarch64"))
PINNED = Base(
    "pinned",
    (
        Edit(DESCRIPTION, "CredentialSpec, ProviderDescription", "CredentialSpec, ProviderDescription, ToolchainSpec, WheelFile"),
        Edit(
            DESCRIPTION,
            "toolchain=None,",
            "toolchain=ToolchainSpec(\n"
            '    distribution="acme-agent",\n'
            "    version=VERSION,\n"
            f"    wheels=({', '.join(WHEELS)}),\n"
            '    root="acme_agent",\n'
            '    program="bin/acme",\n'
            '    executables=("bin/acme",),\n'
            "),",
        ),
        Edit("tests/test_declarations.py", "platforms = ()", 'platforms = ("linux-x86_64", "linux-aarch64")'),
    ),
)
"""It pins a program. Nothing installs that here: the tiny agent is run all the same."""
MUTANTS = (
    Mutant(
        "tested-is-not-installed",
        f"{PART}.test_it_is_what_its_entry_point_names",
        (
            Edit(
                CONFTEST,
                "plugin=AcmePlugin,",
                'plugin=type("Other", (AcmePlugin,), {"description": AcmePlugin.description.model_copy(update={"title": "Other"})}),',
            ),
        ),
    ),
    Mutant(
        "publishes-a-cell-that-was-never-meant",
        f"{PART}.test_its_cells_are_published",
        (
            Edit(DESCRIPTION, "from jamcore.api import DEDICATED_MANAGED_CELLS", "from jamcore.api import FULL_CELLS"),
            Edit(DESCRIPTION, "cells=DEDICATED_MANAGED_CELLS | {SHARED_CELL}", "cells=FULL_CELLS | {SHARED_CELL}"),
        ),
    ),
    Mutant(
        "knows-about-engines",
        f"{PART}.test_the_contribution_is_the_same_for_every_cell",
        (Edit(PLAN, "environment=(),", 'environment=(("ACME_ABILITIES", str(len(context.abilities))),),'),),
    ),
    Mutant(
        "takes-one-session-more",
        f"{PART}.test_a_shared_host_takes_a_bounded_number_of_sessions",
        (Edit(PLUGIN, "seats = SEATS", "seats = SEATS + 1"),),
    ),
    Mutant(
        "asks-for-another-key",
        f"{PART}.test_readiness_is_about_the_key_alone",
        (Edit(DESCRIPTION, 'environment_names=("ACME_API_KEY",)', 'environment_names=("ACME_KEY",)'),),
    ),
    Mutant(
        "resumes-what-was-never-seen",
        f"{PART}.test_which_version_may_resume_which",
        (Edit(DESCRIPTION, "RESUMES: frozenset[str] = frozenset()", 'RESUMES: frozenset[str] = frozenset({"0.9.0"})'),),
    ),
    Mutant(
        "pins-what-cannot-be-executed",
        f"{PART}.test_the_pin_is_whole",
        (Edit(DESCRIPTION, 'executables=("bin/acme",)', 'executables=("bin/other",)'),),
        PINNED,
    ),
    Mutant(
        "has-no-digest-for-a-machine",
        f"{PART}.test_the_pin_is_whole",
        (Edit(DESCRIPTION, f", {WHEELS[1]}", ","),),
        PINNED,
    ),
)
