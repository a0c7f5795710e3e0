"""The scripted model servers of all APIs by name, for what is proven over each of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.servers.server import ModelServer

SERVERS: Mapping[str, type[ModelServer]] = MappingProxyType(
    {"responses": ResponsesServer, "messages": MessagesServer, "chat": ChatServer}
)
"""Each API's name and server. The name is also that of the server's module, which is the program."""
