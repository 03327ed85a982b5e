"""A PostgreSQL server of the tests' own, where one is installed."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

PASSWORD = "s3cr3t-of-the-test"
"""Of the server's only user; whatever is printed must not hold it."""
_BINARIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")


@dataclass(frozen=True)
class Server:
    """A server on loopback; its folder is not synchronised with the disk, so only kills of it are tried."""

    binaries: Path
    folder: Path
    port: int
    user: str | None
    """Who runs it; None: who runs the tests."""

    def control(self, *words: str) -> None:
        """Run pg_ctl: ``start``, ``stop -m fast``, ``stop -m immediate``."""
        options = ["-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", *words]
        run_as(self.user, [str(self.binaries / "pg_ctl"), *options], self.folder)

    def start(self) -> None:
        """Start it; returns when it answers."""
        how = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.control("-o", how, "start")

    def stop(self, mode: str) -> None:
        """Stop it: ``fast`` ends connections, ``immediate`` is a crash."""
        self.control("-m", mode, "stop")

    def url(self, database: str) -> str:
        """Return the URL of a database, password included."""
        return f"postgresql://tester:{PASSWORD}@127.0.0.1:{self.port}/{database}"


def run_as(user: str | None, command: list[str], folder: Path) -> None:
    """Run a command of the server's, as a user without rights."""
    done = subprocess.run(
        command,
        check=False,
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
    )
    assert done.returncode == 0, f"{command[0]} failed, see {folder / 'log'}"


def find_binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl, None where no server is installed."""
    on_path = shutil.which("initdb")
    places = [*([Path(on_path).resolve().parent] if on_path else [])]
    places += [Path(found) for pattern in _BINARIES for found in sorted(glob.glob(pattern), reverse=True)]
    return next((place for place in places if (place / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running server; the test is skipped where none is installed."""
    pytest.importorskip("psycopg", reason="no driver for PostgreSQL is installed: the extra postgres")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed here")
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = None if os.geteuid() else next((name for name in ("postgres", "nobody") if name in names), None)
    if os.geteuid() == 0 and user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user to run it as")
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-postgres-"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    if user is not None:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)
    found = Server(binaries, folder, port, user)
    initdb = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "tester", "-E", "UTF8", "--no-sync"]
    run_as(user, [*initdb, "-A", "scram-sha-256", "--pwfile", str(folder / "password")], folder)
    found.start()
    yield found
    found.stop("immediate")
    shutil.rmtree(folder)


@pytest.fixture
def database(server: Server) -> str:
    """The URL of an empty database."""
    return emptied(server, "one")


@pytest.fixture
def another_database(server: Server) -> str:
    """The URL of a second empty database."""
    return emptied(server, "two")


def emptied(server: Server, name: str) -> str:
    """Create a database, or take all out of it; return its URL."""
    with connected(server, "postgres") as connection:
        names = connection.exec_driver_sql("SELECT datname FROM pg_database").scalars().all()
        if name not in names:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
    with connected(server, name) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        connection.exec_driver_sql(f"{others} AND pid <> pg_backend_pid()")
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    return server.url(name)


@contextmanager
def connected(server: Server, name: str) -> Iterator[sa.Connection]:
    """Connect to a database for commands outside transactions."""
    url = server.url(name).replace("postgresql:", "postgresql+psycopg:")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
