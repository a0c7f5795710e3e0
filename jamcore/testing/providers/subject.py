"""What is under test, as data: the plugin, its program, and how a script makes the model use the program's tools."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jamcore.domain.plan import TOOLS_ROOT
from jamcore.domain.providers import ToolchainSpec
from jamcore.testing.servers.history import NOTHING, Normalisation
from jamcore.testing.servers.script import Call, Rule, Script
from jamcore.testing.servers.server import ModelServer
from jamcore.testing.toolchains import TOOLS_VARIABLE, ToolchainUnavailableError, pinned_toolchain


@dataclass(frozen=True, slots=True)
class ProviderUnderTest:
    """What is peculiar to one provider in all parts of the suite; what is peculiar in one part is said by the subclass there.

    Attributes:
        name: The provider's name, and that of the need (``pytest.mark.needs``) of its program.
        package: The package that holds the plugin; its distribution has the same name with hyphens.
        plugin: Makes the plugin.
        loud: Makes the plugin with what keeps its program quiet undone: the control of the proof that it contacts nobody. Without one the
            control is left out, as not claimed.
        toolchain: The pinned program; ``None``: the plugin brings it along. Where ``JAM_TEST_TOOLS`` names a directory, that is used
            instead, unpinned, and the run says so.
        server: The scripted server of the API that the program speaks.
        normalisation: What the program itself writes among what the model is told, and so is in no comparison. Everything else has to come
            back word by word (CONT-1); a run of the suite prints what is declared.
        model: A name of a model that the program takes.
        shell: Returns the model's call of the shell: its id, and the command.
        write: Returns the model's call that makes a file: its id, the session's directory, the file's name there, its content.
        shown: Whether a command, as the plugin shows it, is the one that the model asked for.
        unknown: An identity as the provider forms them, of no thread.
        keeps_empty_threads: A thread without a turn comes back; otherwise there is none to come back to.
        keeps_directory: A thread comes back in the directory where it began, and in no other.
        refuses_second_writer: A thread that another program holds is refused. Otherwise the core alone sees to it.
        quiet: A turn in which nothing goes wrong has no notice.
        limit_s: How long anything here may take.
    """

    name: str
    package: str
    plugin: Callable[[], object]
    toolchain: ToolchainSpec | None
    server: type[ModelServer]
    model: str
    shell: Callable[[str, str], Call]
    write: Callable[[str, Path, str, str], Call]
    unknown: str
    normalisation: Normalisation = NOTHING
    loud: Callable[[], object] | None = None
    shown: Callable[[str, str], bool] = operator.eq
    keeps_empty_threads: bool = False
    keeps_directory: bool = False
    refuses_second_writer: bool = True
    quiet: bool = True
    limit_s: float = 30.0

    @property
    def distribution(self) -> str:
        """The name of the plugin's distribution."""
        return self.package.replace("_", "-")

    @property
    def tools(self) -> Path:
        """The directory that a sandbox mounts as the tools root.

        Raises:
            ToolchainUnavailableError: The pinned program cannot be had here.
        """
        if unpinned := os.environ.get(TOOLS_VARIABLE):
            return Path(unpinned).absolute()
        return Path(TOOLS_ROOT, self.name) if self.toolchain is None else pinned_toolchain(self.toolchain)

    @property
    def version(self) -> str | None:
        """The version that the program must have, where it is pinned."""
        return None if self.toolchain is None else self.toolchain.version

    def model_server(self, *rules: Rule) -> ModelServer:
        """Return a scripted server that knows what the program itself writes; a context manager."""
        return self.server(Script(rules=rules), normalisation=self.normalisation)

    def needs(self) -> dict[str, Callable[[], str | None]]:
        """Return the provider's need with what finds out whether it is met, for ``pytest_jam_needs``."""
        return {self.name: self.missing}

    def missing(self) -> str | None:
        """Return why the pinned program cannot be had here, or ``None``."""
        if unpinned := os.environ.get(TOOLS_VARIABLE):
            return None if Path(unpinned).is_dir() else f"{TOOLS_VARIABLE} names no directory: {unpinned}"
        return None if self.toolchain is None else missing(self.toolchain)


def missing(toolchain: ToolchainSpec) -> str | None:
    """Return why a pinned program cannot be had here, or ``None``."""
    try:
        pinned_toolchain(toolchain)
    except ToolchainUnavailableError as error:
        return str(error)
    return None
