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


@pytest.fixture(scope="module")
def postgresql_url():
    """Start a PostgreSQL server and yield the address of its database."""
    # Not in pytest's own folder, which other runs of it make root's alone; PostgreSQL is not run as root.
    folder = Path(tempfile.mkdtemp(prefix="captau-postgresql"))
    programs = PROGRAM_FOLDERS[-1]
    as_postgres: list[str] = []
    if os.geteuid() == 0:
        # Not on every user's path.
        runuser = shutil.which("runuser", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if runuser is None:
            pytest.skip("PostgreSQL is not run as root, and there is no runuser")
        as_postgres = [runuser, "-u", "postgres", "--"]
    if as_postgres:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
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
        port = listener.getsockname()[1]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
    pg_ctl = [*as_postgres, f"{programs}/pg_ctl", "-D", data, "-w"]
    log = ["-l", str(folder / "log"), "-o", options]
    subprocess.run([*pg_ctl, *log, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/")
    yield f"postgresql://captau@127.0.0.1:{port}/postgres"
    subprocess.run(
        [*pg_ctl, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/"
    )
    shutil.rmtree(folder)


def create_database(postgresql_url, name):
    """Create a database on the same server and return its address."""
    engine = create_engine(parse_database_url(postgresql_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return f"{postgresql_url.rpartition('/')[0]}/{name}"
