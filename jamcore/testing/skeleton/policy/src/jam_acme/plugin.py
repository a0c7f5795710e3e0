"""The policy: what it makes of every provider's answers. It only tightens them, and Jam's suite asks for that."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

from jamcore.api import Access, ExtraMount, PlanContext, PlanContribution, Preparation, hookimpl

from jam_acme.reading import directory, rules

PLACE = "acme"
"""The directory below each provider's state root in which the rules lie."""
SHOWN_AS = "ACME_RULES"
"""The variable that tells an agent where they are."""

# Requests that no agent may make of its model's endpoint, whatever its plugin wants: these paths, and all below them. The relay
# refuses every request that is not in the plan, so what is taken out here is denied.
DENIED = ("/v1/files", "/v1/uploads", "/v1/vector_stores")


# Hosts on which no room's model may be, with all below them, whoever names the endpoint: such a room is refused.
DENIED_HOSTS = ("models.example.net",)


class AcmePolicy:
    """Acme. Every room has the rules, read-only; none uploads files to its model or has one on a denied host.

    Args:
        source: Where the rules are read from; by default what the daemon's environment says, or those that come along.
    """

    # The plugin interface that this was built for, in numbers: a core with another major number refuses it by name.
    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, source: Path | None = None) -> None:
        self._rules = rules(source or directory(), PLACE)

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self, context: PlanContext) -> Generator[None, PlanContribution, PlanContribution]:
        """Add the mount, its variable and the denied hosts, and take the denied requests away."""
        answer = yield
        place = f"{context.state_root}/{PLACE}"
        # At its own place in the state root: shown read-only anywhere else, it could be written where it lies.
        mount = ExtraMount(subdirectory=PLACE, guest_path=place, access=Access.READ_ONLY)
        return answer.model_copy(
            update={
                "extra_mounts": (*answer.extra_mounts, mount),
                "environment": (*answer.environment, (SHOWN_AS, place)),
                "endpoint_paths": tuple(pair for pair in answer.endpoint_paths if not denied(pair)),
                "denied_hosts": (*answer.denied_hosts, *DENIED_HOSTS),
            }
        )

    @hookimpl(wrapper=True)
    def jam_prepare(self) -> Generator[None, Preparation, Preparation]:
        """Add the files of the mount. They are written anew before each start, from outside the sandbox."""
        answer = yield
        return Preparation(files=(*answer.files, *self._rules))


def denied(pair: str) -> bool:
    """Whether a request, as ``METHOD /path?query``, is denied."""
    path = pair.partition(" ")[2].partition("?")[0]
    return any(path == each or path.startswith(f"{each}/") for each in DENIED)
