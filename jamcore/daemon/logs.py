"""The daemon's log: JSON lines in a private file, never a secret (names that look like one are masked)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog

from jamcore.domain.environment import is_secret_like
from jamcore.system.files import PRIVATE_FILE

LOG_BYTES = 8 << 20
LOG_FILES = 3
"""8 MiB and three older files: weeks of ordinary use, and never a full disk."""
_MIGRATIONS = "alembic"
"""Says in many lines what the store says in one when it has brought a schema up to date."""


@contextmanager
def logging_to(path: Path, level: str) -> Iterator[None]:
    """Send every log line of the process to ``path`` for as long as the block runs."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE))
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", errors="backslashreplace")
    shared = (
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask_secrets,
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()],
        )
    )
    root, migrations = logging.getLogger(), logging.getLogger(_MIGRATIONS)
    before = migrations.level
    migrations.setLevel(logging.WARNING)
    root.addHandler(handler)
    root.setLevel(level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        migrations.setLevel(before)
        root.removeHandler(handler)
        handler.close()


def mask_secrets(_logger: object, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """Replace the value of every field whose name looks like a secret's."""
    for name in event:
        if is_secret_like(name):
            event[name] = "•••"
    return event
