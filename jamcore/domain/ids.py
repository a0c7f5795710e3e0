"""Identifiers: UUID newtypes, opaque provider ids, and the sandbox name (PLAN-3)."""

from __future__ import annotations

import hashlib
import re
from typing import NewType
from uuid import UUID

from jamcore.domain.errors import InvalidInputError

AgentId = NewType("AgentId", UUID)
HostId = NewType("HostId", UUID)
SessionId = NewType("SessionId", UUID)
RoomId = NewType("RoomId", UUID)
BindingId = NewType("BindingId", UUID)
WorkspaceId = NewType("WorkspaceId", UUID)
OperationId = NewType("OperationId", UUID)
TurnId = NewType("TurnId", UUID)
CheckpointId = NewType("CheckpointId", UUID)
ObservationId = NewType("ObservationId", UUID)
ChangeId = NewType("ChangeId", UUID)
RunId = NewType("RunId", UUID)
DaemonId = NewType("DaemonId", UUID)

ProviderIdentity = NewType("ProviderIdentity", str)
"""A provider's own thread or session id: opaque to Jam, bounded by :func:`provider_identity`."""

PROVIDER_IDENTITY_LIMIT = 256
NAME_LIMIT = 63
"""Longest sandbox name: the limit of a DNS label, which every engine accepts (PLAN-3)."""

_DIGEST_HEX = 16
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")


def provider_identity(text: str) -> ProviderIdentity:
    """Accept a provider's id: 1 to 256 printable ASCII characters without spaces.

    Raises:
        InvalidInputError: Anything else.
    """
    if not 1 <= len(text) <= PROVIDER_IDENTITY_LIMIT or not _PRINTABLE.match(text):
        raise InvalidInputError(field="provider identity", problem="not 1 to 256 printable characters")
    return ProviderIdentity(text)


def plugin_name(text: str) -> str:
    """Accept a provider or engine name: a lower-case identifier of at most 32 characters.

    Raises:
        InvalidInputError: Anything else.
    """
    if not _NAME.match(text):
        raise InvalidInputError(field="name", problem=f"{text[:40]!r} is not a lower-case identifier")
    return text


def sanitise_prefix(text: str) -> str:
    """Reduce ``text`` to ``[a-z0-9-]``: lower case, runs of anything else become one hyphen, none at the ends."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "jam"


def sandbox_name(prefix: str, agent: UUID, owner: UUID) -> str:
    """Derive the only name a sandbox may have (PLAN-3).

    The digest covers the 16 big-endian bytes of the agent UUID, one ``0x00`` separator and the 16 bytes of the stable owner
    UUID (host or session). Room ids, aliases and display names never enter it. At most :data:`NAME_LIMIT` characters.
    """
    digest = hashlib.sha256(agent.bytes + b"\x00" + owner.bytes).hexdigest()[:_DIGEST_HEX]
    room = NAME_LIMIT - _DIGEST_HEX - 1
    return f"{sanitise_prefix(prefix)[:room].rstrip('-')}-{digest}"
