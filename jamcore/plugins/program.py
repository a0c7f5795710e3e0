"""What the runtime of any provider does with its program: speak with it for a while, ask it, know its version and why it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio

from jamcore.domain.errors import JamError
from jamcore.domain.providers import ProviderGoneError, ProviderRefusedError
from jamcore.plugins.jsonrpc import LineClient, RemoteError
from jamcore.plugins.turnstream import TurnStream
from jamcore.system.guest import GuestProcess


@asynccontextmanager
async def speaking(
    process: GuestProcess, client: LineClient, *, shutdown_s: float, last: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[None]:
    """Speak with a program for the length of the block; then its input is closed, and where that does not end it in time it is killed.

    Args:
        process: The program, just started; it belongs to the block.
        client: A client over it that nobody has entered.
        shutdown_s: How long the program may take to end by itself.
        last: What is done while it still listens. Its errors leave the block, so it keeps those of the program to itself.
    """
    try:
        async with client:
            try:
                yield
            finally:
                # Who runs a turn is cancelled together with this; a program that is killed leaves commands that belong to nobody.
                with anyio.CancelScope(shield=True):
                    if last is not None:
                        await last()
                    await client.finish(shutdown_s)
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()


class ProgramRuntime:
    """The part of :class:`jamcore.plugins.runtime.ProviderRuntime` that is about the program, for a runtime to build on.

    A runtime with a program for each thread has a client for each: it names the one that is meant in :meth:`ask`, and never connects.

    Args:
        provider: The provider's name, for errors.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._version = ""
        self._client: LineClient | None = None
        self._gone = anyio.Event()
        self._why = ""

    @property
    def version(self) -> str:
        """See :class:`jamcore.plugins.runtime.ProviderRuntime`: what the running program reported of itself."""
        return self._version

    async def closed(self) -> str:
        """See :class:`jamcore.plugins.runtime.ProviderRuntime`."""
        await self._gone.wait()
        return self._why

    def connect(self, client: LineClient) -> None:
        """Learn over what the program is asked."""
        self._client = client

    async def ask(
        self, request: str, params: Mapping[str, object], timeout_s: float, *, client: LineClient | None = None
    ) -> object:
        """Ask the program, and return its result.

        Args:
            request: What is asked.
            params: With what.
            timeout_s: How long an answer is waited for.
            client: Over what, where each thread has a program of its own; else what :meth:`connect` was told.

        Raises:
            ProviderRefusedError: It answered with an error; its words are in this one.
            ProviderGoneError, ProviderTimeoutError, ProviderProtocolError: It did not answer.
        """
        over = client or self._client
        if over is None:
            raise ProviderGoneError(provider=self._provider, detail="it has not been started")
        try:
            answer: object = await over.request(str(request), params, timeout_s=timeout_s)
        except RemoteError as error:
            raise ProviderRefusedError(provider=self._provider, request=str(request), detail=error.message) from error
        return answer

    def require_version(self, version: str, expected: str | None, request: str) -> None:
        """Learn the program's version; ``request`` is what it was the answer to.

        Raises:
            ProviderRefusedError: Another one is expected.
        """
        self._version = version
        if expected not in (None, version):
            detail = f"the program in the sandbox is {version or 'of no version that it says'}, not {expected}"
            raise ProviderRefusedError(provider=self._provider, request=str(request), detail=detail)

    def end(self, error: JamError, *turns: TurnStream | None) -> None:
        """Learn that the program is gone, or of no use any more, and end the turns that run; the first reason stands.

        Of no use is also a program in which a turn could not be ended, or a thread is gone that was loaded: it would refuse every further
        turn of a room that looks well. Jam then ends the program, and the room comes back as the exact thread or says why not.
        """
        self._why = self._why or str(error)
        self._gone.set()
        for turn in turns:
            if turn is not None:
                turn.fail(error)
