"""A PostgreSQL server of Debian's packages that the tests of both sites start."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from captau.server.storage.database import parse_database_url

#: Folders of PostgreSQL's programs, the newest last.
PROGRAM_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class PostgresqlServer:
    """A PostgreSQL server in a folder of its own; `url` is the address of its database."""

    def __init__(self):
        # Not in pytest's own folder, which other runs of it make root's alone; PostgreSQL is not run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="captau-postgresql"))
        programs = PROGRAM_FOLDERS[-1]
        as_postgres: list[str] = []
        if os.geteuid() == 0:
            # Not on every user's path.
            runuser = shutil.which("runuser", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            if runuser is None:
                pytest.skip("PostgreSQL is not run as root, and there is no runuser")
            as_postgres = [runuser, "-u", "postgres", "--"]
            shutil.chown(self.folder, "postgres")
        data = str(self.folder / "data")
        created = subprocess.run(
            [*as_postgres, f"{programs}/initdb", "-D", data, "-U", "captau", "-A", "trust", "-N"],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        assert created.returncode == 0, created.stderr
        # Late, so that nobody takes it in the meantime.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self._port = listener.getsockname()[1]
        self._pg_ctl = [*as_postgres, f"{programs}/pg_ctl", "-D", data, "-w"]
        self.url = f"postgresql://captau@127.0.0.1:{self._port}/postgres"

    def start(self):
        """Start it, as after a kill too, and wait until it answers."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1"
        options += f" -c unix_socket_directories={self.folder}"
        log = ["-l", str(self.folder / "log"), "-o", options]
        self._run(*log, "start")

    def kill(self):
        """End it as a crash does: nothing is finished or written down."""
        self._run("-m", "immediate", "stop")

    def _run(self, *words):
        subprocess.run([*self._pg_ctl, *words], check=True, stdout=subprocess.DEVNULL, cwd="/")


@pytest.fixture(scope="module")
def postgresql():
    """Start a PostgreSQL server and yield it."""
    server = PostgresqlServer()
    server.start()
    yield server
    server.kill()
    shutil.rmtree(server.folder)


@pytest.fixture(scope="module")
def postgresql_url(postgresql):
    """Return the address of the database of a server that is started."""
    return postgresql.url


def create_database(postgresql_url, name):
    """Create a database on the same server and return its address."""
    engine = create_engine(parse_database_url(postgresql_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return f"{postgresql_url.rpartition('/')[0]}/{name}"
