"""What may enter a guest's environment: the custody rule, secret-like names, and bounds (ENV-1, ENV-2).

The rule looks at names and values that Jam or a plugin put together; nothing here reads the environment of the host.
"""

from __future__ import annotations

import re

from jamcore.domain.limits import ENVIRONMENT_PAIRS, ENVIRONMENT_VALUE_BYTES

PROXY_SENTINELS = frozenset({"proxy-managed", "sk-ant-oat01-proxy-managed", "oai-oat01-proxy-managed", "oai-ort01-proxy-managed"})
"""Values that stand for a secret which is put in outside the guest; they are worth nothing themselves."""

CUSTODY_NAMES = ("band_agent_key", "band_user_key")
"""Credentials of the room transport: the daemon alone holds them (ENV-5)."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_SECRET_WORDS = frozenset({"key", "keys", "auth", "authorization", "pat", "cookie", "cookies", "bearer"})
_SECRET_PARTS = (
    "token",
    "tokens",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
)
_LOADER_NAMES = frozenset({"ld_preload", "ld_library_path", "ld_audit"})


def is_custody_name(name: str) -> bool:
    """Whether a name is, or contains as whole words, one of :data:`CUSTODY_NAMES`; case does not matter."""
    folded = f"_{name.casefold()}_"
    return any(f"_{custody}_" in folded for custody in CUSTODY_NAMES)


def is_secret_like(name: str) -> bool:
    """Whether a name looks as if its value were a secret. Works on whole words: ``AUTHOR`` and ``TOKENIZERS`` are none."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.casefold()) if word]
    return any(word in _SECRET_WORDS or word.endswith((*_SECRET_PARTS, "apikey")) for word in words)


def environment_problems(pairs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return what is wrong with an environment for a guest, one sentence a fault; no sentence holds a value (ENV-2)."""
    problems = [] if len(pairs) <= ENVIRONMENT_PAIRS else [f"more than {ENVIRONMENT_PAIRS} variables"]
    seen = set[str]()
    for name, value in pairs:
        problems.extend(f"{name[:64]!r}: {fault}" for fault in _faults(name, value))
        if name in seen:
            problems.append(f"{name[:64]!r}: named twice")
        seen.add(name)
    return tuple(problems)


def _faults(name: str, value: str) -> list[str]:
    faults = []
    if not _NAME.match(name):
        faults.append("not a plain variable name")
    if is_custody_name(name):
        faults.append("belongs to the room transport and never enters a guest")
    elif is_secret_like(name) and value not in PROXY_SENTINELS:
        faults.append("looks like a secret; secrets are added outside the guest")
    if name.casefold() in _LOADER_NAMES:
        faults.append("changes how programs are loaded")
    if "\x00" in value:
        faults.append("the value holds a NUL")
    if len(value.encode(errors="surrogatepass")) > ENVIRONMENT_VALUE_BYTES:
        faults.append(f"the value is longer than {ENVIRONMENT_VALUE_BYTES} bytes")
    return faults
