"""A private PostgreSQL server for tests: real, on a Unix socket in a directory of its own, never on the network.

As root it runs as the account that the distribution made for it, or as ``nobody``: PostgreSQL refuses to run as root. It ends with the
process that started it. What it keeps need survive that process only, so it never waits for the disk.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

START_S = 30.0
"""From its start to its first answer: a third of a second, more after a crash."""
STOP_S = 20.0
POLL_S = 0.01
ACCOUNTS = ("postgres", "nobody")
USER = "jam"
_PROGRAMS = ("postgres", "initdb")
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "fsync": "off",
        "full_page_writes": "off",
        "shared_buffers": "32MB",
        "max_connections": "60",
        # Processes that come and go by themselves would be taken for a test's own.
        "autovacuum": "off",
        "max_parallel_workers": "0",
        "max_logical_replication_workers": "0",
    }
)
_ORDER = ("--locale-provider=icu", "--icu-locale=en-US", "--encoding=UTF8")
"""An order of text that is not the bytes' own, as most servers have it: what depends on the order is found."""


class PostgresFailedError(Exception):
    """The server did not start, answer or end; the text says what it said."""


def programs() -> Path:
    """Return the directory of the server's programs: on the path, or the newest where Debian keeps them.

    Raises:
        PostgresFailedError: They are not installed.
    """
    on_path = [found for name in _PROGRAMS if (found := shutil.which(name))]
    if len(on_path) == len(_PROGRAMS):
        return Path(on_path[0]).resolve().parent
    kept = [place for place in _DEBIAN.glob("*/bin") if all((place / name).exists() for name in _PROGRAMS)]
    if not kept:
        raise PostgresFailedError("PostgreSQL's server is not installed")
    return max(kept, key=lambda place: float(place.parent.name))


def probe_postgres() -> str | None:
    """``postgres``: the server's programs and the driver are installed."""
    try:
        programs()
    except PostgresFailedError as error:
        return str(error)
    return None if find_spec("psycopg") else "the driver is not installed: jamcore[postgresql]"


class PostgresServer:
    """One server. Made by :func:`postgres_server`; stopped and started again by tests of what a restart does."""

    def __init__(self, root: Path, account: pwd.struct_passwd | None) -> None:
        self._root = root
        self._account = account
        self._bin = programs()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The directory of its files."""
        return self._root / "data"

    def prepare(self) -> None:
        """Make the directory of its files; once.

        Raises:
            PostgresFailedError: The program failed.
        """
        argv = self._as_user("initdb", "-D", str(self.data), "-U", USER, "--auth=trust", "--no-sync", "--no-locale", *_ORDER)
        named = _as_somebody() if self._account is None else ()
        done = subprocess.run(
            (*named, *argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S, check=False, cwd=self._root
        )
        if done.returncode:
            raise PostgresFailedError(f"initdb: {done.stderr.decode(errors='replace')[-2000:].strip()}")

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            PostgresFailedError: It does not.
        """
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        argv = self._as_user("postgres", "-D", str(self.data), "-k", str(self._root), *settings)
        with (self._root / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root)
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                words = self.last_words()
                self.stop(kill=True)
                raise PostgresFailedError(f"PostgreSQL does not start: {words}")
            time.sleep(POLL_S)

    def stop(self, *, kill: bool = False) -> None:
        """End it, and every connection with it; ``kill`` gives it no time to tidy up. One that has ended is fine.

        Raises:
            PostgresFailedError: It goes on, and was killed.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise PostgresFailedError(f"PostgreSQL did not end within {STOP_S:.0f} s: {self.last_words()}") from error
        finally:
            self._process = None

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{USER}@/{quote(database)}?host={quote(str(self._root), safe='')}"

    def create(self, database: str, *, template: str = "template0") -> str:
        """Make a database and return its URL; nobody may be connected to its template."""
        self.say(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Remove a database and whoever is connected to it."""
        self.say(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def say(self, statement: str, *, database: str = "postgres") -> None:
        """Run one statement outside any transaction."""
        import psycopg  # late: an extra

        with psycopg.connect(host=str(self._root), user=USER, dbname=database, autocommit=True) as connection:
            connection.execute(statement.encode())

    def last_words(self) -> str:
        """Return the end of what it logged."""
        log = self._root / "log"
        return log.read_text(errors="replace")[-2000:].strip() if log.exists() else ""

    def _answers(self) -> bool:
        import psycopg  # late: an extra

        try:
            self.say("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _as_user(self, program: str, *arguments: str) -> tuple[str, ...]:
        """Return the command as the server's account; SIGINT is its fast end, and comes when its parent dies."""
        become: tuple[str, ...] = ()
        if self._account is not None:
            become = ("--reuid", str(self._account.pw_uid), "--regid", str(self._account.pw_gid), "--clear-groups")
        return ("setpriv", "--pdeathsig", "INT", *become, str(self._bin / program), *arguments)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a running server with no database of interest; in the end it and its files are gone.

    Raises:
        PostgresFailedError: There is none, or it does not start or end.
    """
    account = _account() if os.geteuid() == 0 else None
    # Not below a test's own directory: that is closed to other accounts, and too deep for a socket's path.
    with tempfile.TemporaryDirectory(prefix="jam-pg-") as place:
        if account is not None:
            os.chown(place, account.pw_uid, account.pw_gid)
        server = PostgresServer(Path(place), account)
        try:
            server.prepare()
            server.start()
            yield server
        finally:
            server.stop(kill=True)


def _account() -> pwd.struct_passwd:
    """Return the account that a server of root's runs as."""
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next((known[name] for name in ACCOUNTS if name in known), None)
    if found is None:
        raise PostgresFailedError(f"there is no account to run a server as: {' or '.join(ACCOUNTS)}")
    return found


def _as_somebody() -> tuple[str, ...]:
    """Return what gives the preparing program a user with a name: it asks for one, and a user without an account has none."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        account = _account()
        return ("unshare", "--user", f"--map-user={account.pw_uid}", f"--map-group={account.pw_gid}")
    return ()
