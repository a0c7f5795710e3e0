"""What a plugin claims, and what the suite asks of it for that; the rest is skipped by name, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import pytest

from jamcore.domain.cells import Placement
from jamcore.domain.continuity import CaptureKind
from jamcore.testing.proof import NOT_CLAIMED
from jamcore.testing.providers.case import KEPT, Case

_ATTRIBUTE = "jam_provider_claims"
_Test = TypeVar("_Test", bound=Callable[..., Any])


class Claim(StrEnum):
    """What a plugin may claim. The words complete "the provider …"."""

    CONTINUITY = "brings conversations back"
    APPROVALS = "asks before it acts"
    SHARED = "serves several sessions on one host"
    FILES = "keeps conversations in files of the state root"
    APPEND_ONLY = "keeps conversations in files that only grow"
    ONE_CONVERSATION = "says which files are of one conversation"
    PROCESS_EACH = "runs a program for each thread"
    PROCESS_SHARED = "runs one program for all threads of a runtime"
    SINGLE_WRITER = "refuses a thread that another program holds"


_CLAIMED: Mapping[Claim, Callable[[Case], bool]] = MappingProxyType(
    {
        Claim.CONTINUITY: lambda case: case.description.continuity,
        Claim.APPROVALS: lambda case: case.description.approvals,
        Claim.SHARED: lambda case: any(cell.placement is Placement.SHARED for cell in case.description.cells),
        Claim.FILES: lambda case: any(entry.kind in KEPT for entry in case.capture.entries),
        Claim.APPEND_ONLY: lambda case: any(entry.kind is CaptureKind.APPEND_ONLY for entry in case.capture.entries),
        Claim.ONE_CONVERSATION: lambda case: bool(case.capture.conversation_patterns),
        Claim.PROCESS_EACH: lambda case: not case.description.threads_share_process,
        Claim.PROCESS_SHARED: lambda case: case.description.threads_share_process,
        Claim.SINGLE_WRITER: lambda case: case.provider.refuses_second_writer,
    }
)


def asked_of(*claims: Claim) -> Callable[[_Test], _Test]:
    """Ask a check, or all checks of a class, only of a plugin that claims all of this."""

    def mark(test: _Test) -> _Test:
        setattr(test, _ATTRIBUTE, claims)
        return test

    return mark


@pytest.mark.anyio
class ProviderTests:
    """The base of the suite's parts.

    ``known_failures`` maps a test's name to a reason; such a test must fail, so that a mended one is noticed.
    """

    known_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _only_what_is_claimed(self, request: pytest.FixtureRequest, case: Case) -> None:
        """Ask a provider only what it claims, and say by name what was not asked."""
        claims = (*getattr(type(self), _ATTRIBUTE, ()), *getattr(request.function, _ATTRIBUTE, ()))
        if absent := [claim for claim in claims if not _CLAIMED[claim](case)]:
            pytest.skip(f"{NOT_CLAIMED}{case.provider.name} is not a provider that {' and '.join(absent)}")
        if reason := self.known_failures.get(request.node.originalname):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def declaration(part: object, attribute: str) -> str:
    """Return how a failure names the class attribute in which an author declares what is peculiar to their program."""
    return f"{type(part).__name__}.{attribute} is {getattr(part, attribute)!r}"


def not_claimed(case: Case, what: str) -> None:
    """Skip the running test: the provider does not claim what it asks."""
    pytest.skip(f"{NOT_CLAIMED}{case.provider.name} {what}")
