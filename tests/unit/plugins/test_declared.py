"""What every provider says of itself, from what it declares."""

from __future__ import annotations

import pytest

from jamcore.domain.continuity import ActivationPlan, CaptureEntry, CaptureKind, CaptureList
from jamcore.domain.providers import CredentialSpec, CredentialView, PlacementRequest, ToolchainSpec
from jamcore.plugins.declared import DeclaredProvider, ResumableProvider
from jamcore.testing.doubles.providers import GOOD

MISSING, THERE = CredentialView(present=False, source=""), CredentialView(present=True, source="environment")
CREDENTIAL = CredentialSpec(
    name="keyed", environment_names=("A_KEY", "B_KEY"), header="authorization", prefix="Bearer ", origin="https://model.example"
)

TOOLCHAIN = ToolchainSpec(distribution="keyed", version="2.0.1", root="keyed", program="bin/keyed", executables=("bin/keyed",))


class Declared(DeclaredProvider):
    """A provider with a key and two seats."""

    description = GOOD.model_copy(update={"title": "Keyed", "credential": CREDENTIAL, "threads_share_process": False})
    seats = 2


class Shared(Declared):
    """The same with one process for all."""

    description = Declared.description.model_copy(update={"threads_share_process": True})
    no_login = "Its login is no use."


@pytest.mark.anyio
async def test_without_a_key_a_person_is_told_what_to_do() -> None:
    """Both ways to give one, by name, and why a login on this machine is none."""
    report = await Declared().jam_check_credentials(MISSING)
    assert not report.ready
    assert report.reason == "there is no key for Keyed"
    for words in ("jam credential set keyed", "A_KEY or B_KEY", "A login on this machine cannot be used"):
        assert words in report.hint
    assert (await Shared().jam_check_credentials(MISSING)).hint.endswith("Its login is no use.")


@pytest.mark.anyio
async def test_with_a_key_or_without_the_need_of_one_it_is_ready() -> None:
    """Whether a key is a good one only the endpoint knows."""
    assert (await Declared().jam_check_credentials(THERE)).ready
    keyless = Declared()
    keyless.description = Declared.description.model_copy(update={"credential": None})
    assert (await keyless.jam_check_credentials(MISSING)).ready


@pytest.mark.guarantee("SHARE-5")
@pytest.mark.parametrize(("provider", "own"), [(Declared(), True), (Shared(), False)], ids=["process each", "one process"])
def test_a_shared_host_has_so_many_seats(provider: DeclaredProvider, *, own: bool) -> None:
    """One more is refused with a reason, in the process that it would have had."""
    seat, full = (provider.jam_place_session(PlacementRequest(seats=taken)) for taken in (1, 2))
    assert (seat.accepted, seat.own_process) == (True, own)
    assert (full.accepted, full.own_process) == (False, own)
    assert full.reason == "one host serves at most 2 sessions of Keyed"


def test_only_what_comes_back_declares_what_to_capture() -> None:
    """A provider without continuity has no hook that promises it."""
    capture = CaptureList(
        entries=(CaptureEntry(pattern="*.log", kind=CaptureKind.WHOLE),), conversation_patterns=("{identity}.log",)
    )

    class Resumable(Declared, ResumableProvider):
        """One that comes back."""

    Resumable.capture, Resumable.activation = capture, ActivationPlan()
    assert Resumable().jam_declare_capture() is capture
    assert Resumable().jam_declare_activation() == ActivationPlan()
    assert Resumable().jam_describe_provider() is Declared.description
    assert not hasattr(DeclaredProvider, "jam_declare_capture")


@pytest.mark.guarantee("CONT-7")
def test_what_was_measured_holds_for_the_pinned_program() -> None:
    """Patches count where the provider says so; a program that Jam does not place is its own pin."""

    class Resumable(ResumableProvider):
        """One that was measured."""

        description = Declared.description.model_copy(update={"toolchain": TOOLCHAIN})
        resumes = ("1.9.0",)

    class Patched(Resumable):
        """One whose patches change nothing."""

        patches = True

    class Unplaced(Resumable):
        """One that is there already."""

        description = Declared.description.model_copy(update={"toolchain": None})

    asked = [("2.0.1", "2.0.1"), ("1.9.0", "2.0.1"), ("2.0.0", "2.0.1"), ("1.9.0", "2.0.2")]
    assert [Resumable().jam_accepts_version(*each) for each in asked] == [True, True, False, False]
    assert [Patched().jam_accepts_version(*each) for each in asked] == [True, True, True, False]
    assert [Unplaced().jam_accepts_version(*each) for each in asked] == [True, True, False, True]


def test_a_plugin_without_a_shared_cell_need_not_name_seats() -> None:
    """It has none: who asks all the same is refused with a reason, and the plugin is not to blame."""

    class Dedicated(DeclaredProvider):
        """A provider that says nothing of seats."""

        description = Declared.description

    answer = Dedicated().jam_place_session(PlacementRequest(seats=0))
    assert (answer.accepted, answer.own_process, answer.reason) == (False, True, "no host of Keyed is shared")
