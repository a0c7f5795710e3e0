"""Sending one answer: takes the steps that :mod:`jamcore.testing.servers.steps` planned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from aiohttp import web

from jamcore.testing.servers.steps import Answer, Cut, Drop, Gate, Send, Silence, Step, Wait


class EventStream:
    """One answer that is being sent.

    Args:
        http: The request that it answers.
        content_type: Of a stream of events, or of a whole answer.
        gate: Waits at the gate of a name; False: it was not released in time, and the stream has to be cut.
        on_delta: Told how many deltas went to the socket, after each.
    """

    def __init__(
        self,
        http: web.Request,
        *,
        content_type: str,
        gate: Callable[[str], Awaitable[bool]],
        on_delta: Callable[[int], None],
    ) -> None:
        self._http = http
        self._gate = gate
        self._on_delta = on_delta
        self.deltas = 0
        self.response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    async def run(self, todo: tuple[Step, ...]) -> Literal["completed", "cut"]:
        """Take the steps in order; says how the stream ended.

        Raises:
            ConnectionError: The client left.
        """
        for step in todo:
            if not await self._take(step):
                # close, not abort: what was sent before must still reach the client.
                # Of a dropped one nothing was, and aiohttp finds the connection closed when it wants to send the head.
                if self._http.transport is not None:
                    self._http.transport.close()
                return "cut"
        await self._prepared()
        await self.response.write_eof()
        return "completed"

    async def _take(self, step: Step) -> bool:
        """Take one step; False: the stream has to be cut here."""
        match step:
            case Send():
                await self._send(step)
            case Wait():
                await anyio.sleep(step.seconds)
            case Gate():
                return await self._gate(step.name)
            case Silence():
                await self._prepared()
                await anyio.sleep_forever()  # until the client leaves or the server ends: both cancel the handler
            case Cut():
                await self._prepared()
                return False
            case Drop():
                return False
            case Answer():
                raise TypeError("an error answer is no part of another")
        return True

    async def _send(self, step: Send) -> None:
        await self._prepared()
        await self.response.write(step.data)
        if step.delta:
            self.deltas += 1
            self._on_delta(self.deltas)

    async def _prepared(self) -> None:
        """Send the head, once. Not before the first byte is due: a slow first byte means a slow head too."""
        if not self.response.prepared:
            await self.response.prepare(self._http)
