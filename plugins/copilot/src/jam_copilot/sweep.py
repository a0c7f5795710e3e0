"""What is swept in the guest before Copilot starts, so that what an agent wrote decides nothing about its own next start.

Copilot reads its home: servers to start, hooks to run and settings to obey, whatever its client says; a broken configuration there lets a
turn never begin. Jam keeps the conversations alone. A lock counts for Copilot while any process has the number that it names, so one that
a killed program left would keep a conversation closed for ever; it stays only where that process is Copilot (a second writer).
"""

from __future__ import annotations

from jam_copilot.description import NAME
from jam_copilot.plan import SESSIONS
from jamcore.api import GuestLauncher, ProviderRefusedError

SWEEP_S = 20.0

_SCRIPT = f"""\
exec 2>&1
find "$1" -mindepth 1 -maxdepth 1 ! -name {SESSIONS} -exec rm -rf -- {{}} + || exit 1
for lock in "$1"/{SESSIONS}/*/inuse.*.lock; do
    [ -e "$lock" ] || continue
    number=${{lock%.lock}}
    number=${{number##*.}}
    case $(readlink "/proc/$number/exe" 2>/dev/null) in
        */copilot | */copilot-runtime) ;;
        *) rm -f -- "$lock" "${{lock%.lock}}.hold" || exit 1 ;;
    esac
done
"""


_END_GROUPS = """\
for number in "$@"; do
    read -r about < "/proc/$number/stat" || continue
    set -- ${about##*) }
    kill -KILL -- "-$3"
done
"""


class Guest:
    """What Copilot cannot do itself, done in its sandbox beside it."""

    def __init__(self, launcher: GuestLauncher, state_root: str, *, cwd: str) -> None:
        self._launcher, self._state_root, self._cwd = launcher, state_root, cwd

    async def sweep(self) -> None:
        """Leave nothing below the state root but the conversations, and no lock whose program is gone.

        Raises:
            SandboxGoneError: The sandbox is not running.
            ProviderRefusedError: It could not be done, so nothing is started.
        """
        code, said = await self._run(_SCRIPT, self._state_root)
        if code != 0:
            detail = f"its state could not be swept: {said.decode(errors='replace').strip()[:300]}"
            raise ProviderRefusedError(provider=NAME, request="start", detail=detail)

    async def end_groups(self, processes: tuple[int, ...]) -> None:
        """Kill the process groups of detached commands. One that is gone is passed over.

        Raises:
            SandboxGoneError: The sandbox is not running.
        """
        if processes:
            await self._run(_END_GROUPS, *map(str, processes))

    async def _run(self, script: str, *words: str) -> tuple[int | None, bytes]:
        return await self._launcher.run(("/bin/sh", "-c", script, NAME, *words), cwd=self._cwd, timeout_s=SWEEP_S)
