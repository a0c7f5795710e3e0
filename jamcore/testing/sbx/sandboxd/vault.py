"""Secrets: what is stored, which placeholder stands for it in a guest, and where it is put in its place."""

from __future__ import annotations

import fnmatch
import secrets
import string
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration
from jamcore.testing.sbx.sandboxd.refusal import RefusedError
from jamcore.testing.sbx.sandboxd.state import Sandbox, State

SENTINEL = "proxy-managed"
GH_SENTINEL = "gho_sbxproxymanaged000000000000000000000"
GLOBAL = "global"
HOST_ONLY = "(host only)"
"""The scope of a registry's secret that no sandbox has."""


def _service(variable: str, *hosts: str) -> tuple[str, tuple[str, ...]]:
    return variable, hosts


SERVICES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": _service("ANTHROPIC_API_KEY", "api.anthropic.com"),
        "copilot": _service("COPILOT_GITHUB_TOKEN", "api.githubcopilot.com"),
        "cursor": _service("CURSOR_API_KEY", "api2.cursor.sh"),
        "devin": _service("DEVIN_API_KEY", "api.devin.ai"),
        "droid": _service("FACTORY_API_KEY", "api.factory.ai"),
        "github": _service("GH_TOKEN", "api.github.com", "github.com"),
        "google": _service("GEMINI_API_KEY", "generativelanguage.googleapis.com"),
        "groq": _service("GROQ_API_KEY", "api.groq.com"),
        "mistral": _service("MISTRAL_API_KEY", "api.mistral.ai"),
        "nebius": _service("NEBIUS_API_KEY", "api.studio.nebius.ai"),
        "openai": _service("OPENAI_API_KEY", "api.openai.com"),
        "openrouter": _service("OPENROUTER_API_KEY", "openrouter.ai"),
        "xai": _service("XAI_API_KEY", "api.x.ai"),
    }
)
"""Services: the variable in the guest and the hosts of their API (``secret.service-hosts``)."""


class Vault:
    """The secrets of one daemon. Each is kept with its value; nothing but the proxy ever reads that."""

    def __init__(self, state: State) -> None:
        self.state = state

    def set(self, service: str, scope: str, value: str, kind: str = "service") -> None:
        """Store a secret of a service or of a registry, in place of an older one."""
        if kind == "service" and service not in SERVICES:
            raise RefusedError(f'unknown service "{service}"; expected one of {", ".join(SERVICES)}')
        if not value:
            raise RefusedError("secret value is empty")
        self._keep(
            [
                each
                for each in self.state.secrets
                if not (each["name"] == service and each["scope"] == scope and each["type"] == kind)
            ]
        )
        self.state.secrets.append({"type": kind, "name": service, "scope": scope, "value": value})

    def has(self, service: str, scope: str) -> bool:
        """Whether one is stored."""
        return any(each["name"] == service and each["scope"] == scope for each in self.state.secrets)

    def custom(self, hosts: list[str], env: str, scope: str, value: str, placeholder: str) -> str:
        """Store a custom secret; return its placeholder.

        Raises:
            RefusedError: The variable is taken, or something is missing.
        """
        for each in self._custom():
            if each["env"] == env and each["scope"] == scope:
                raise RefusedError(
                    f'custom secret env "{env}" already exists in scope {scope} with placeholder {each["placeholder"]}'
                )
        if not value:
            raise RefusedError("secret value is empty")
        letters = string.ascii_letters + string.digits
        rand = "".join(secrets.choice(letters) for _ in range(16))
        made = placeholder.replace("{rand}", rand) if placeholder else f"sbx-cs-{rand}"
        self.state.secrets.append(
            {"type": "custom", "name": made, "scope": scope, "value": value, "targets": hosts, "env": env, "placeholder": made}
        )
        return made

    def _custom(self) -> list[dict[str, Any]]:
        return [each for each in self.state.secrets if each["type"] == "custom"]

    def remove(
        self, scope: str, *, service: str = "", placeholder: str = "", host: str = "", everything: bool = False
    ) -> list[str]:
        """Remove what is meant and return the names."""

        def meant(each: dict[str, Any]) -> bool:
            if scope and each["scope"] != scope:
                return False
            if each["type"] == "custom":
                return everything or each["placeholder"] == placeholder or host in each["targets"]
            return everything or each["name"] == service

        gone = [each for each in self.state.secrets if meant(each)]
        self._keep([each for each in self.state.secrets if each not in gone])
        return [each["name"] for each in gone]

    def _keep(self, kept: list[dict[str, Any]]) -> None:
        self.state.secrets = kept

    def listed(self, scope: str, service: str) -> dict[str, Any]:
        """Return the list without any value (``secret.json``)."""
        found = [each for each in self.state.secrets if (not scope or each["scope"] == scope)]
        return {
            "secrets": [
                {"scope": each["scope"], "type": each["type"], "name": each["name"], "secret": "(stored)"}
                for each in found
                if each["type"] != "custom" and (not service or each["name"] == service)
            ],
            "custom_secrets": [
                {key: each[key] for key in ("scope", "targets", "env", "placeholder")} | {"secret": "****"}
                for each in found
                if each["type"] == "custom" and not service
            ],
            "shadowed_services": [],
            "env_only_count": 0,
        }

    # ------------------------------------------------------------------ guests

    def environment(self, gates: Gates, sandbox: Sandbox) -> dict[str, str]:
        """Return the variables of a guest: placeholders alone."""
        stored = {each["name"] for each in self._reaching(sandbox) if each["type"] == "service"}
        found = {}
        for service, (variable, _) in SERVICES.items():
            if gates("guest.sentinels") or service in stored:
                found[variable] = GH_SENTINEL if service == "github" else SENTINEL
        for service in ("anthropic", "openai", "github"):
            found[f"SBX_CRED_{service.upper()}_MODE"] = "apikey" if service in stored else "none"
        for each in self._reaching(sandbox):
            if each["type"] == "custom" and each["env"]:
                found[each["env"]] = each["placeholder"]
        return found

    def _reaching(self, sandbox: Sandbox) -> list[dict[str, Any]]:
        return [
            each
            for each in self.state.secrets
            if each["scope"] in (GLOBAL, sandbox.name) and (each["type"] != "custom" or each["placeholder"] in sandbox.custom)
        ]

    def swap(self, told: Configuration, sandbox: Sandbox, host: str, value: str) -> str:
        """Put secrets in place of placeholders in a header's value, on the way to their hosts (``secret.swap``).

        What belongs to one sandbox goes before what is global.
        """
        for each in sorted(self._reaching(sandbox), key=lambda each: each["scope"] == GLOBAL):
            if each["type"] == "custom":
                if any(fnmatch.fnmatchcase(host, target) for target in each["targets"]):
                    value = value.replace(each["placeholder"], each["value"])
            elif each["type"] == "service" and not told.bug("kit-service-not-injected") and host in SERVICES[each["name"]][1]:
                value = value.replace(GH_SENTINEL if each["name"] == "github" else SENTINEL, each["value"])
        return value
