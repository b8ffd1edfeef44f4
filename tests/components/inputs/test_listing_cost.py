"""Many files are listed with one look at each, and take little memory."""

import contextlib
import os
import stat
import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from components.example_gen.input_selection import list_files
from components.inputs.listing import FileTable
from tests.make import jpeg, write_files
from trainer_utils import storage
from trainer_utils.storage import local


class Entry:
    """An entry of a simulated folder that counts the calls which look at the file."""

    looks = 0

    def __init__(self, folder: str, name: str, mode: int) -> None:
        self.name, self.path, self._mode = name, f"{folder}/{name}", mode

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        return stat.S_ISDIR(self._mode)

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        Entry.looks += 1
        times = {"st_mtime_ns": 17 * 10**17, "st_ctime_ns": 17 * 10**17 + 1}
        return os.stat_result((self._mode, 1, 1, 1, 0, 0, 1000, 0, 0, 0), times)


@pytest.fixture
def many(monkeypatch) -> int:
    """Simulate 100 folders with 40,000 files."""

    @contextlib.contextmanager
    def open_folder(folder: str) -> Iterator[list[Entry]]:
        if "class" in folder:
            names = (f"{os.path.basename(folder)}_{n:08d}.jpg" for n in range(400))
            yield [Entry(folder, name, stat.S_IFREG) for name in names]
        else:
            yield [Entry(folder, f"class{n:02d}", stat.S_IFDIR) for n in range(100)]

    monkeypatch.setattr(local, "_opened_folder", open_folder)
    Entry.looks = 0
    return 40_000


def test_each_file_and_folder_is_looked_at_once(many, tmp_path):
    assert len(list_files(str(tmp_path), follow_links=False)) == many
    assert Entry.looks == many + 100


def test_list_takes_less_than_100_bytes_per_file(many, tmp_path):
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    files = list_files(str(tmp_path), follow_links=False)
    own = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert own + pa.total_allocated_bytes() - before < 100 * many + (1 << 20)
    assert files["class07/class07_00000003.jpg"].size == 1000


def test_groups_have_the_rows_of_single_files(tmp_path):
    names = ["a/1.jpg", "a/b/2.jpg", "3.jpg", "é/4.jpg", os.fsdecode(b"a/\xff.jpg"), "a/ .jpg"]
    write_files(tmp_path, {name: jpeg(1) for name in names})
    (tmp_path / "a/link.jpg").symlink_to(tmp_path / "3.jpg")
    (tmp_path / "a/out.jpg").symlink_to("/etc/hosts")
    (tmp_path / "dead.jpg").symlink_to(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    base = str(tmp_path)
    for follow_links in (False, True):
        single = FileTable.of(storage.walk_files(base, follow_links=follow_links))
        groups = FileTable.of_groups(storage.walk_groups(base, follow_links=follow_links))
        assert groups.table.equals(single.table)
        found = {file.path: file for file in groups.rows()}
        status = os.stat(tmp_path / "a/1.jpg")
        assert found["a/1.jpg"].version == f"{status.st_mtime_ns}-{status.st_ctime_ns}"
        assert [*found] == sorted(found, key=os.fsencode)


def test_file_dated_after_the_year_2262_is_listed(tmp_path):
    write_files(tmp_path, {"1.jpg": jpeg(1), "2.jpg": jpeg(2)})
    late = 1 << 63  # nanoseconds, which need more than 64 bits with their sign
    os.utime(tmp_path / "1.jpg", ns=(late, late))
    if os.stat(tmp_path / "1.jpg").st_mtime_ns < late:
        pytest.skip("the file system has no such times")
    files = list_files(str(tmp_path), follow_links=False)
    assert files["1.jpg"].version.startswith(f"{late}-")
    assert len(files) == 2
