"""Gates: places in an answer where the server waits until a test lets it go on."""

from __future__ import annotations

from pathlib import Path

import anyio

POLL_S = 0.02
"""How often the file of a gate is looked for: far below what a person notices, rare enough to cost nothing."""

HOLD_LIMIT_S = 300.0
"""How long an answer waits at most: a test that forgot to release its gate must end as a cut stream, not as a hung run."""


class Gates:
    """The gates of one server.

    A gate is released once and stays open: answers that reach it later do not wait. It is released by :meth:`release`, or by a file of
    its name in ``directory``, which another process can make.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._gates: dict[str, anyio.Event] = {}

    def release(self, name: str) -> None:
        """Open a gate; opening it again changes nothing."""
        self._gate(name).set()

    async def passed(self, name: str, limit_s: float = HOLD_LIMIT_S) -> bool:
        """Wait at a gate. Returns False if it was not released within ``limit_s`` seconds."""
        gate = self._gate(name)
        with anyio.move_on_after(limit_s):
            if self._directory is None:
                await gate.wait()
            while not gate.is_set() and not await self._has_file(name):
                with anyio.move_on_after(POLL_S):
                    await gate.wait()
            gate.set()
        return gate.is_set()

    def _gate(self, name: str) -> anyio.Event:
        return self._gates.setdefault(name, anyio.Event())

    async def _has_file(self, name: str) -> bool:
        return self._directory is not None and await anyio.Path(self._directory / name).exists()
