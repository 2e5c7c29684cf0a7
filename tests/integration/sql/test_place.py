from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from middlewatch.adapters.sql.place import (
    Mount,
    is_network,
    mount_of,
    parse_mountinfo,
    private_directory,
    state_directory,
)
from middlewatch.adapters.sql.store import open_store
from middlewatch.ports.errors import Refused

SAMPLE = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 0:50 / /home rw,nosuid shared:7 master:2 - nfs4 filer:/export/home rw,vers=4.2,addr=10.0.0.9
41 40 0:51 / /home/u/local rw - xfs /dev/nvme0n1 rw
42 41 0:52 / /home/u/local/deep rw - lustre 10.0.0.1@o2ib:/scratch rw,flock
43 27 0:53 / /mnt/with\040blank\134and\011tab rw - cifs //server/share rw
44 27 0:54 / /over rw - ext4 /dev/sdb rw
45 44 0:55 / /over rw - beegfs beegfs_nodev rw
46 27 0:56 /sub/dir /bound rw - ext4 /dev/sdc rw
47 27 0:57 / /sshfs rw - fuse.sshfs u@h: rw
48 27 0:58 / /usb rw - fuseblk /dev/sdd1 rw
49 27 0:59 / /gpfs/fs1 rw - gpfs fs1 rw
50 27 0:60 / /home2 rw - ext4 /dev/sde rw
51 27 0:61 / /var/tmp rw - tmpfs tmpfs rw
this line is none
52 27 0:62 / /short - ext4
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/etc/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/u/.local/state", "nfs4"),
        ("/home/u/local", "xfs"),
        ("/home/u/local/state", "xfs"),
        ("/home/u/localized", "nfs4"),
        ("/home/u/local/deep/er", "lustre"),
        ("/mnt/with blank\\and\ttab/x", "cifs"),
        ("/over/x", "beegfs"),
        ("/bound/x", "ext4"),
        ("/sshfs/x", "fuse.sshfs"),
        ("/gpfs/fs1/u", "gpfs"),
        ("/home2/u", "ext4"),
        ("/homeless", "ext4"),
    ],
)
def test_path_lies_on_the_deepest_mount_and_the_last_of_equals(path: str, kind: str) -> None:
    found = mount_of(path, parse_mountinfo(SAMPLE))
    assert found is not None
    assert found.kind == kind


def test_lines_of_another_shape_are_skipped() -> None:
    assert parse_mountinfo("") == ()
    assert parse_mountinfo("a b c\n\n- \n1 2 3 / /x rw - \n") == ()
    assert len(parse_mountinfo(SAMPLE)) == len(SAMPLE.splitlines()) - 2


def test_no_mounts_at_all_is_no_answer() -> None:
    assert mount_of("/x", ()) is None


def test_own_mount_table_is_understood() -> None:
    mounts = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    assert mount_of("/proc", mounts) == Mount("/proc", "proc")


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "fuse", "fuse.glusterfs", "ceph"],
)
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs"]
)
def test_local_file_systems_are_known(kind: str) -> None:
    assert not is_network(kind)


def on(kind: str, where: Path) -> str:
    return f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {where} rw - {kind} server:/x rw\n"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_local_place_is_kept_without_a_word(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "state"
    assert state_directory(wanted, mountinfo=on("xfs", tmp_path)) == (wanted, None)
    assert mode(wanted) == 0o700


def test_state_on_a_network_file_system_is_kept_elsewhere_and_said(tmp_path: Path) -> None:
    home, local = tmp_path / "home", tmp_path / "local"
    local.mkdir()
    path, notice = state_directory(
        home / "u" / "state", mountinfo=on("nfs4", home), local_root=local, user="u"
    )
    assert path == local / "middlewatch-u"
    assert mode(path) == 0o700
    assert notice is not None
    for part in ("nfs4", str(home), str(path)):
        assert part in notice
    assert not home.exists()


def test_link_to_a_network_file_system_is_followed(tmp_path: Path) -> None:
    far, local = tmp_path / "far", tmp_path / "local"
    far.mkdir()
    local.mkdir()
    (tmp_path / "link").symlink_to(far)
    path, notice = state_directory(
        tmp_path / "link" / "state", mountinfo=on("lustre", far), local_root=local, user="u"
    )
    assert path.parent == local
    assert notice is not None


def test_no_local_place_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="local disk"):
        state_directory(
            tmp_path / "a", mountinfo=on("beegfs", tmp_path), local_root=tmp_path / "b", user="u"
        )


def test_place_that_another_took_by_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "middlewatch-u").symlink_to(tmp_path / "theirs")
    with pytest.raises(Refused, match="not a directory"):
        state_directory(
            tmp_path / "home", mountinfo=on("nfs", tmp_path / "home"), local_root=tmp_path, user="u"
        )


@pytest.mark.root
def test_place_that_belongs_to_another_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "middlewatch-u"
    taken.mkdir()
    os.chown(taken, 65534, 65534)
    with pytest.raises(Refused, match="65534"):
        private_directory(taken, strict=True)
    taken.chmod(0o755)
    with pytest.raises(Refused, match="65534, who could exchange everything"):
        private_directory(taken)


def test_own_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="chmod 700"):
        private_directory(tmp_path)
    assert mode(tmp_path) == 0o777


def test_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(Refused, match="not a directory"):
        private_directory(tmp_path / "x")
    with pytest.raises(Refused, match="cannot be made"):
        private_directory(tmp_path / "x" / "y")


def test_database_and_all_files_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = open_store(tmp_path / "new" / "state.db")
    finally:
        os.umask(before)
    assert store.healthy()
    assert mode(tmp_path / "new") == 0o700
    files = {path.name: mode(path) for path in (tmp_path / "new").iterdir()}
    store.close()
    assert set(files) == {"state.db", "state.db-wal", "state.db-shm", "state.db.lock"}
    assert set(files.values()) == {0o600}


def test_existing_database_is_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    open_store(path).close()
    path.chmod(0o644)
    open_store(path).close()
    assert mode(path) == 0o600


def test_directory_in_the_place_of_the_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    with pytest.raises(Refused, match="plain file"):
        open_store(tmp_path / "state.db")
