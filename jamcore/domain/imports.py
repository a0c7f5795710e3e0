"""Exports from elsewhere: how one is taken in, what a person confirms of it, and the room that it becomes (WS-6, SEC-7, CONT-1). Pure."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain import limits
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.checkpoint_exports import CheckpointSummary, Digest
from jamcore.domain.errors import RefusalError
from jamcore.domain.exports import ExportOrigin, Listed, TreeTotals
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.records import Record
from jamcore.domain.requests import EndpointChoice
from jamcore.domain.sandboxes import Resources

SourcePath = Annotated[str, Field(min_length=1, max_length=limits.EXPORT_PATH_BYTES, pattern=r"^/[^\x00]*$")]


class ImportRequest(Record):
    """Take an export in. The id is the client's, and becomes the export's here; ``path`` is its directory, absolute."""

    id: UUID
    path: SourcePath


class ConversationClaim(Record):
    """What an export from elsewhere says of the conversation in it, and whether it can be taken up here.

    Attributes:
        checkpoint: What its manifest says; ``None``: no conversation is in it.
        problem: Why it cannot be taken up here, in words; empty when it can. All of it was read.
    """

    checkpoint: CheckpointSummary | None
    problem: str = ""


class ImportEvidence(Record):
    """What a person confirms of an export from elsewhere. ``kind`` binds the digest to this question.

    Attributes:
        export_id: Its id here.
        claimed_id: The id that it had where it was made.
        manifest_sha256: From it every name and byte is verified.
        origin: Who made it, as it says; nothing proves it.
        provider_installed: Whether the plugin of that provider is here.
        workspace: What its files are.
        conversation: What is in it besides.
        credentials: Where something looks like a credential: found here, not believed.
        stripped: What lost set-id bits or attributes when it was made, as it says.
        left_out: What was left out of it then, as it says.
    """

    kind: Literal["import"] = "import"
    export_id: UUID
    claimed_id: UUID
    manifest_sha256: Digest
    origin: ExportOrigin
    provider_installed: bool
    workspace: TreeTotals
    conversation: ConversationClaim
    credentials: Listed
    stripped: Listed
    left_out: Listed

    def require_confirmed(self, confirmed: str) -> None:
        """Require that this is what was confirmed.

        Raises:
            ImportEvidenceChangedError: It is not.
        """
        found = self.content_digest()
        if not hmac.compare_digest(found.encode(), confirmed.encode()):
            raise ImportEvidenceChangedError(confirmed=confirmed, found=found)


class ImportView(Record):
    """An export from elsewhere with what there is to confirm. ``digest`` confirms the evidence.

    ``program_missing`` names the agent's program where it is not installed; empty where it is, or its plugin is missing or needs none.
    """

    export: KeptExport
    path: str
    evidence: ImportEvidence
    digest: Digest
    program_missing: str = ""


class ConfirmRequest(Record):
    """Let an export from elsewhere be restored. ``confirmed`` is the digest of its evidence."""

    confirmed: Digest


class AdoptRequest(Record):
    """Make a new room of a confirmed export from elsewhere. The id is the client's, so that a retry is exact.

    Attributes:
        name: The room's name; Jam finds one when it is absent.
        without_conversation: Begin a new conversation on the files, and leave the one that is in the export.
    """

    id: UUID
    name: str | None = None
    engine: str | None = None
    model: str | None = None
    approvals: ApprovalPolicy | None = None
    endpoint: EndpointChoice | None = None
    resources: Resources = Resources()
    without_conversation: bool = False


@dataclass(eq=False)
class ImportRefusedError(RefusalError):
    """A directory cannot be taken in as an export: it holds what none can hold, or is not what its own lists say (WS-6)."""

    code: ClassVar[str] = "export.import_refused"
    hint: ClassVar[str] = (
        "Nothing was taken in. Copy the export again, with `cp -a` or `tar --format=posix --xattrs`, and import that."
    )

    total: int
    named: tuple[str, ...]


@dataclass(eq=False)
class ImportEvidenceChangedError(RefusalError):
    """What there is to confirm of an export is not what was confirmed."""

    code: ClassVar[str] = "export.evidence_changed"
    hint: ClassVar[str] = "Nothing was changed. Look again with `jam export confirm EXPORT`, and confirm what it shows then."

    confirmed: str
    found: str


@dataclass(eq=False)
class NotFromElsewhereError(RefusalError):
    """The export was made here, or became a room already: there is nothing to confirm, or to make a room of."""

    code: ClassVar[str] = "export.not_from_elsewhere"
    hint: ClassVar[str] = (
        "Nothing was changed. `jam workspace restore ROOM` brings back what was archived here. "
        "For another room, or where the sandbox was cleaned up, take its directory in as a new export: `jam export import DIRECTORY`."
    )

    export: str
    problem: str


@dataclass(eq=False)
class ExportQuarantinedError(RefusalError):
    """The export came from elsewhere, and nobody has confirmed it."""

    code: ClassVar[str] = "export.quarantined"
    hint: ClassVar[str] = "Look at it with `jam export confirm EXPORT`, and confirm it by the digest that this shows."

    export: str
    state: str


@dataclass(eq=False)
class ConversationNotTakenError(RefusalError):
    """The conversation in an export cannot be taken up here exactly, so no room was made (CONT-1)."""

    code: ClassVar[str] = "export.conversation_not_taken"
    hint: ClassVar[str] = (
        "Nothing was changed. Mend what the problem names, or begin a new conversation on the files: "
        "jam export restore EXPORT --without-conversation."
    )

    export: str
    problem: str
