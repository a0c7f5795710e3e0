"""Hooks that answer from what a provider declares, once for every plugin, which subclasses one of these and adds what does something.

They are ordinary implementations of :class:`jamcore.plugins.hookspecs.ProviderSpecs`: a plugin with another answer overrides the hook.
"""

from __future__ import annotations

from collections.abc import Collection

from jamcore.domain.continuity import ActivationPlan, CaptureList
from jamcore.domain.providers import CredentialReport, CredentialView, PlacementAnswer, PlacementRequest, ProviderDescription
from jamcore.plugins.hookspecs import hookimpl
from jamcore.plugins.versions import may_resume


class DeclaredProvider:
    """What every provider says of itself.

    Attributes:
        description: The provider; its cells, its program, its credential. A class attribute: the hooks return it as it is, at every call.
        seats: Sessions that one shared host may have of it; none, for a plugin without a shared cell.
        no_login: Why a person's login on this machine is of no use, and what may be besides a key.
    """

    description: ProviderDescription
    seats: int = 0
    no_login: str = "A login on this machine cannot be used: its file would lie in the sandbox."

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Return the description."""
        return self.description

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Accept a session while there are seats, in the process that all threads share or in one of its own (SHARE-5)."""
        own = not self.description.threads_share_process
        if request.seats < self.seats:
            return PlacementAnswer(accepted=True, own_process=own)
        title = self.description.title
        reason = f"one host serves at most {self.seats} sessions of {title}" if self.seats else f"no host of {title} is shared"
        return PlacementAnswer(accepted=False, own_process=own, reason=reason)

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """Ready when there is a key, or none is needed; whether it is a good one only the endpoint knows, and says it in the first turn."""
        credential = self.description.credential
        if credential is None or view.present:
            return CredentialReport(ready=True)
        names = " or ".join(credential.environment_names)
        hint = f"Run `jam credential set {credential.name}`, or set {names} in the daemon's environment. {self.no_login}"
        return CredentialReport(ready=False, reason=f"there is no key for {self.description.title}", hint=hint)


class ResumableProvider(DeclaredProvider):
    """A provider whose conversations come back.

    Attributes:
        capture: Which of its files make a conversation (CONT-3).
        activation: What must not lie beside a restored one (CONT-5).
        resumes: Older versions whose state the pinned program was seen to resume exactly.
        patches: Whether an older patch of the same release may be resumed without that; a vendor may change anything in one.
    """

    capture: CaptureList
    activation: ActivationPlan
    resumes: Collection[str] = ()
    patches: bool = False

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Return the list."""
        return self.capture

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Return the plan."""
        return self.activation

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """See :func:`jamcore.plugins.versions.may_resume`; a program that Jam does not place itself is its own pin."""
        toolchain = self.description.toolchain
        pinned = current if toolchain is None else toolchain.version
        return may_resume(captured, current, pinned=pinned, seen=self.resumes, patches=self.patches)
