"""The guest's /etc: made here, nothing of the host's but what programs need to find libraries and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GUEST_USER = "agent"
GUEST_UID = 1000

_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "/etc/passwd": f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n{GUEST_USER}:x:{GUEST_UID}:{GUEST_UID}::/home/agent:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "/etc/group": f"root:x:0:\n{GUEST_USER}:x:{GUEST_UID}:\nnogroup:x:65534:\n",
        "/etc/hosts": "127.0.0.1 localhost jam\n::1 localhost\n",
        "/etc/hostname": "jam\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "/etc/resolv.conf": "# This sandbox has no network but its model endpoint.\n",
        "/etc/shells": "/bin/sh\n/bin/bash\n",
    }
)
FILES: Mapping[str, bytes] = MappingProxyType({path: text.encode() for path, text in _TEXTS.items()})
"""What is written into the sandbox's own root, by guest path."""

FROM_HOST = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/localtime",
    "/etc/mime.types",
)
"""Read-only from the host where they exist: indexes of libraries and programs, public certificates, the time zone."""
