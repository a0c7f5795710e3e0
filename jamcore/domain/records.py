"""The base of every record that crosses a process, a file or a plugin boundary."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Frozen, strict, closed: an unknown field or a wrong type is an error, and nothing changes after construction."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    def canonical_json(self) -> bytes:
        """Return the one JSON form of this record: sorted keys, no spaces, UTF-8. Two equal records give equal bytes."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def content_digest(self) -> str:
        """Return the SHA-256 of :meth:`canonical_json`, in hex."""
        return hashlib.sha256(self.canonical_json()).hexdigest()
