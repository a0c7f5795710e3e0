"""Any other agent: each table of the configuration with ``family = "acp"`` is a profile (README, "An agent that nobody thought of")."""

from __future__ import annotations

from collections.abc import Mapping

from jam_acp.plugin import AcpPlugin, plugin_of
from jam_acp.profile import profile_of

FAMILY = "acp"


class AcpFamily:
    """See :class:`jamcore.api.ProviderFamily`."""

    def jam_family(self) -> str:
        """Return the family's name."""
        return FAMILY

    def least_table(self) -> Mapping[str, object]:
        """Return a table of the agent's command line alone."""
        return {"argv": ["my-agent", "acp"]}

    def provider(self, name: str, table: Mapping[str, object]) -> AcpPlugin:
        """Return the plugin of the agent that a table describes.

        Raises:
            InvalidInputError: Something in it is unknown, missing or wrong; its field says which key.
        """
        return plugin_of(profile_of(name, table))
