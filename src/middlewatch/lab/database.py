"""Slurm's accounting needs MariaDB, and the machine's own MariaDB is not ours to touch.

Each lab has a server of its own: its own data directory, socket and port, run as the user
``mysql`` that the package made. Creating one takes about half a second.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from middlewatch.lab.config import Layout
from middlewatch.lab.daemons import absolute, database_client, run_quietly
from middlewatch.lab.errors import LabError


def create(layout: Layout) -> None:
    """Make an empty data directory. Raises LabError with the installer's words."""
    # A server that starts deletes the temporary tables of others that share its tmpdir.
    for folder in (layout.database, layout.database_temporary):
        folder.mkdir(mode=0o700)
        shutil.chown(folder, "mysql", "mysql")
    answer = subprocess.run(
        [
            absolute("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={layout.database}",
            f"--tmpdir={layout.database_temporary}",
            "--user=mysql",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
            "--skip-name-resolve",
            "--innodb-log-file-size=8M",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        last = "\n".join(answer.stdout.strip().splitlines()[-10:])
        raise LabError(f"mariadb-install-db failed (exit {answer.returncode}):\n{last}")


def prepare(layout: Layout, password: str, env: Mapping[str, str]) -> None:
    """Make Slurm's database and the user ``lab`` who may use it. ``password`` is hexadecimal."""
    statement = "; ".join(
        [
            "create database slurm",
            *(
                f"create user 'lab'@'{host}' identified by '{password}'; "
                f"grant all on slurm.* to 'lab'@'{host}'"
                for host in ("127.0.0.1", "localhost")
            ),
        ]
    )
    answer = run_quietly(database_client(layout, statement), env)
    if answer.returncode != 0:
        raise LabError(f"the lab's database could not be prepared: {answer.stderr.strip()}")
