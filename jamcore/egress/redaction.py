"""Keeps one secret out of a stream of bytes without holding the stream up."""

from __future__ import annotations

SHORTEST_SECRET = 8
"""Below this a match would more often be chance than the secret."""


class SecretFilter:
    """Replaces a secret by asterisks of the same length, also where it is split between two chunks.

    Only bytes that may be the beginning of the secret are held back, and only until the next chunk: ordinary text passes at once.
    """

    def __init__(self, secret: str | None) -> None:
        self._secret = secret.encode() if secret is not None and len(secret) >= SHORTEST_SECRET else b""
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what may pass now."""
        if not self._secret:
            return chunk
        data = (self._held + chunk).replace(self._secret, b"*" * len(self._secret))
        keep = self._beginning_at_end(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        """Return what was held back: the stream ended, so it was not the secret."""
        held, self._held = self._held, b""
        return held

    def _beginning_at_end(self, data: bytes) -> int:
        """Length of the longest end of ``data`` that is a proper beginning of the secret."""
        for length in range(min(len(data), len(self._secret) - 1), 0, -1):
            if data.endswith(self._secret[:length]):
                return length
        return 0
