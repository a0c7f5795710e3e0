"""What a plugin may say of where its program comes from."""

from __future__ import annotations

import pytest

from jamcore.domain.provider_rules import description_problems
from jamcore.domain.providers import PackageFile, ProviderDescription, ToolchainSpec, UnpackStep, WheelFile

PACKAGE = PackageFile(platform="linux-x86_64", name="@good/agent-linux-x64", sha512="0" * 128)
WHEEL = WheelFile(platform="linux-x86_64", sha256="0" * 64)
STEP = UnpackStep(command=("agent", "--version"), environment=(("AGENT_CACHE", "{root}"),))


def spec(**other: object) -> ToolchainSpec:
    good = ToolchainSpec(
        distribution="good-agent",
        version="1.2.3",
        packages=(PACKAGE,),
        root="package",
        program="agent",
        executables=("agent",),
        unpack=STEP,
    )
    return good.model_copy(update=other)


def problems(toolchain: ToolchainSpec) -> tuple[str, ...]:
    description = ProviderDescription(
        name="good",
        title="Good",
        cells=frozenset(),
        toolchain=toolchain,
        credential=None,
        default_origin=None,
        continuity=False,
        threads_share_process=False,
    )
    return description_problems("good", description)


@pytest.mark.parametrize("name", ["agent", "@good/agent-linux-x64", "a.b_c-d~1"])
@pytest.mark.parametrize("version", ["1.2.3", "0.0.0-next.4", "1.2.3+build.5"])
def test_packages_of_an_exact_version_are_taken(name: str, version: str) -> None:
    """Scoped or not."""
    assert problems(spec(version=version, packages=(PACKAGE.model_copy(update={"name": name}),))) == ()


@pytest.mark.parametrize(
    "name",
    ["-agent", "../agent", "./agent", "a@npm:b", "https://x/a.tgz", "file:a", "a/b", "@good", "Agent", "git+ssh", "a b", "", "a\n"],
)
def test_what_the_client_would_take_for_something_else_is_no_name(name: str) -> None:
    """An option, a path, an address, an alias: the client fetches from anywhere that it is told."""
    assert any("name" in problem for problem in problems(spec(packages=(PACKAGE.model_copy(update={"name": name}),))))


@pytest.mark.parametrize("version", ["1", "1.2", "latest", "1.2.x", "1.2.3 || 2", "1.2.3/..", "1.2.3-"])
def test_a_range_is_no_version(version: str) -> None:
    """Only three numbers are one version for the client."""
    assert problems(spec(version=version)) != ()


def test_a_program_has_one_origin_for_each_platform() -> None:
    """Wheels or packages; a digest of the right kind; no platform twice."""
    assert problems(spec(packages=(), wheels=(WHEEL,))) == ()
    assert "both" in problems(spec(wheels=(WHEEL,)))[0]
    assert "SHA-512" in problems(spec(packages=(PACKAGE.model_copy(update={"sha512": "0" * 64}),)))[0]
    assert "two packages" in problems(spec(packages=(PACKAGE, PACKAGE)))[0]


@pytest.mark.parametrize(
    "step",
    [
        UnpackStep(command=()),
        UnpackStep(command=("/bin/sh", "-c", "true")),
        UnpackStep(command=("../agent",)),
        UnpackStep(command=("agent",), environment=(("A=B", ""),)),
        UnpackStep(command=("agent",), environment=(("A", "1"), ("A", "2"))),
        UnpackStep(command=("agent", "a\0b")),
        UnpackStep(command=("agent", *["x"] * 100)),
    ],
    ids=range(7),
)
def test_what_unpacks_a_program_is_of_its_archive(step: UnpackStep) -> None:
    """It is told little, and no variable twice."""
    assert problems(spec(unpack=step)) != ()


def test_a_pin_is_found_by_its_platform() -> None:
    """Whatever its kind."""
    assert (spec().digest("linux-x86_64"), spec().digest("plan9-mips"), spec().platforms()) == ("0" * 128, None, ("linux-x86_64",))
    assert spec(packages=(), wheels=(WHEEL,)).digest("linux-x86_64") == "0" * 64
