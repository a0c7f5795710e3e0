"""Loads what is installed beside Jam: provider plugins, the secrets that they need, and engines."""

from __future__ import annotations

from contextlib import AsyncExitStack

from jamcore.daemon.credentials import Credentials
from jamcore.daemon.enginehouse import EngineHouse, open_engines
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.plugins import Blocks
from jamcore.engines.registry import EngineRegistry
from jamcore.plugins.manager import ProviderManager


async def load_plugins(options: DaemonOptions, blocks: Blocks) -> ProviderManager:
    """Load every installed provider plugin and every configured one; one that cannot be loaded is reported, not fatal."""
    plugins = ProviderManager()
    await plugins.load(blocked=await blocks.all(), tables=options.providers)
    return plugins


def credentials_for(options: DaemonOptions, plugins: ProviderManager) -> Credentials:
    """Return the daemon's secrets, told what every loaded plugin needs."""
    credentials = Credentials(options.app, files=options.files, environment=options.environment)
    for name in plugins.names():
        if spec := plugins.provider(name).description.credential:
            credentials.know(spec)
    return credentials


async def open_installed_engines(stack: AsyncExitStack, options: DaemonOptions, blocks: Blocks) -> EngineHouse:
    """Open every installed engine, each with private directories of its own."""
    registry = EngineRegistry()
    await registry.load(blocked=await blocks.all())
    return await open_engines(
        stack,
        registry,
        options.app,
        files=options.files,
        preferred=options.engine,
        sandboxing=options.sandboxing,
        probe_within_s=options.limits.read_s,
        host=options.engine_host,
        storage_volume=options.storage_volume,
    )
