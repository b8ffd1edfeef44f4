"""Test files that change, lead out of the base, or may not be read."""

import contextlib
import errno
import itertools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob
from components.inputs.listing import FileTable, LayoutInputs
from components.inputs.rejects import RejectedInputError, reject_errors
from trainer_utils import storage
from trainer_utils.storage import (
    FileRefusedError,
    MachineError,
    copy_file,
    find_file,
    list_files,
    open_for_reading,
    read_bytes,
    retrying,
    write_atomically,
    write_text,
)
from trainer_utils.storage.file_system import FileSystem, FolderEntry

SIZE = 1000


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """End this process if a test waits for a pipe."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def base(tmp_path) -> Path:
    base = tmp_path / "in"
    (base / "a").mkdir(parents=True)
    (base / "a/1.jpg").write_bytes(b"x" * SIZE)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1.jpg").write_bytes(b"s" * SIZE)
    return base


def anew(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a function that replaces a file."""
    return lambda path: (path.unlink(), make(path))


def bind_socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)  # the full path may be too long for a socket
    socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def link_its_folder_out(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.symlink_to("../outside", target_is_directory=True)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (anew(os.mkfifo), "NOT_A_FILE"),
    "a socket": (anew(bind_socket), "NOT_A_FILE"),
    "a folder": (anew(Path.mkdir), "UNREADABLE"),
    "a link to a device": (anew(lambda p: p.symlink_to("/dev/zero")), "OUTSIDE_INPUT_BASE"),
    "a link out": (anew(lambda p: p.symlink_to("../../outside/1.jpg")), "OUTSIDE_INPUT_BASE"),
    "in a folder that leads out": (link_its_folder_out, "OUTSIDE_INPUT_BASE"),
    "a link to itself": (anew(lambda p: p.symlink_to(p.name)), "UNREADABLE"),
    # It uses no disk space, but all memory if it is read.
    "longer": (lambda path: os.truncate(path, 1 << 40), "CHANGED_FILE"),
    "shorter": (lambda path: os.truncate(path, SIZE - 1), "CHANGED_FILE"),
    "gone": (Path.unlink, "VANISHED"),
}


def reject_of(reader: BlobReader, blob: Blob) -> str:
    with pytest.raises(RejectedInputError) as caught:
        reader.read(blob)
    return caught.value.code


@pytest.mark.parametrize("into", CHANGES)
def test_file_replaced_since_its_listing_is_rejected(base, into):
    change, code = CHANGES[into]
    change(base / "a/1.jpg")
    assert reject_of(BlobReader(str(base)), Blob("a/1.jpg", SIZE)) == code


def test_member_of_a_replaced_archive_is_rejected(base, subtests):
    CHANGES["longer"][0](base / "a/1.jpg")  # bytes after a member do not matter
    assert BlobReader(str(base)).read(Blob("a/1.jpg", 10, offset=5)) == b"x" * 10
    for change, code in (CHANGES["shorter"], CHANGES["a link out"]):
        with subtests.test(change=change):
            change(base / "a/1.jpg")
            assert reject_of(BlobReader(str(base)), Blob("a/1.jpg", SIZE - 5, offset=5)) == code


def test_small_files_are_read_completely_or_rejected(base):
    for size, listed in itertools.product(range(4), repeat=2):
        (base / "few").write_bytes(b"abc"[:size])
        if size in (0, listed):
            assert BlobReader(str(base)).read(Blob("few", listed)) == b"abc"[:size]
        else:
            assert reject_of(BlobReader(str(base)), Blob("few", listed)) == "CHANGED_FILE"


def test_links_within_the_base_are_followed(base, tmp_path, subtests):
    (base / "link.jpg").symlink_to("a/1.jpg")
    (base / "b").symlink_to("a", target_is_directory=True)
    (tmp_path / "base").symlink_to("in", target_is_directory=True)
    for spelling in (base, tmp_path / "base", f"{base}/", f"{base}/a/.."):
        with subtests.test(spelling=spelling):
            reader = BlobReader(str(spelling))
            for name in ("a/1.jpg", "link.jpg", "b/1.jpg"):
                assert reader.read(Blob(name, SIZE)) == b"x" * SIZE


def test_links_must_not_leave_another_root(base, tmp_path):
    root = tmp_path / "outside"
    (root / "link.jpg").symlink_to(base / "a/1.jpg")
    reader = BlobReader(str(base), [str(root)])
    assert reader.read(Blob(f"{root}/1.jpg", SIZE)) == b"s" * SIZE
    assert reject_of(reader, Blob(f"{root}/link.jpg", SIZE)) == "OUTSIDE_INPUT_BASE"


def test_opening_a_pipe_raises_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        open_for_reading(str(tmp_path / "pipe"))


def test_names_that_are_not_utf_8_are_listed_and_read(base):
    name = os.fsdecode(b"\xff\xfe\x80.jpg")
    (base / name).write_bytes(b"y")
    assert name in {file.path for file in list_files(str(base))}
    assert BlobReader(str(base)).read(Blob(name, 1)) == b"y"


def test_file_removed_during_the_listing_has_vanished(base, monkeypatch):
    (base / "a/2.jpg").write_bytes(b"x")
    scandir = os.scandir

    @contextlib.contextmanager
    def scan_late(folder: int) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.name == "2.jpg":
                os.remove(entry.name, dir_fd=folder)
        yield found

    monkeypatch.setattr(os, "scandir", scan_late)
    files = {file.path: file.problem for file in list_files(str(base))}
    assert files["a/1.jpg"] is None
    assert files["a/2.jpg"][0] == "VANISHED"
    with pytest.raises(FileNotFoundError):
        find_file(str(base), "3.jpg")


def test_dead_link_is_unreadable_and_not_vanished(base):
    (base / "a/2.jpg").symlink_to("gone.jpg")
    files = {file.path: file.problem for file in list_files(str(base))}
    assert files["a/2.jpg"][0] == "UNREADABLE"


@pytest.mark.parametrize("error", [PermissionError(13, "no"), FileNotFoundError(2, "no")])
def test_unreadable_folder_is_listed_itself(base, monkeypatch, error):
    open_file = os.open

    def refuse(path, *arguments, **more):
        if str(path).endswith("/a"):
            raise error
        return open_file(path, *arguments, **more)

    (base / "b").mkdir()
    (base / "b/2.jpg").write_bytes(b"x")
    monkeypatch.setattr(os, "open", refuse)
    folder, file = list_files(str(base))
    assert (folder.path, folder.is_folder, file.path) == ("a", True, "b/2.jpg")
    assert folder.problem is not None
    assert folder.problem[0] == (
        "VANISHED" if isinstance(error, FileNotFoundError) else "UNREADABLE"
    )
    inputs = LayoutInputs(base=str(base), root="", files=FileTable.of((folder, file)))
    with pytest.raises(RejectedInputError, match=folder.problem[0]):
        inputs.resolve("a/1.jpg", folder="")
    with pytest.raises(RejectedInputError, match="FILE_NOT_FOUND"):
        inputs.resolve("b/1.jpg", folder="")


class Failing(FileSystem):
    """A store of one file, which fails `times` times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times = error, times

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return b"x" * SIZE

    def info(self, path: str) -> FolderEntry:
        return FolderEntry(path, SIZE + 1)  # grown since the listing


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError("gone"), "VANISHED"),
        (PermissionError(errno.EACCES, "no"), "UNREADABLE"),
        (FileRefusedError("CHANGED_FILE", "it grew"), "CHANGED_FILE"),
        (ConnectionError("reset"), None),
        (OSError(errno.ESTALE, "stale"), None),
        (MemoryError(), None),
        (MachineError("'failing://1.jpg': 503 after 8 retries"), None),
        (PermissionError("the store refused the credentials"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_faults_of_a_store_reject_no_file(monkeypatch, error, code):
    monkeypatch.setattr(retrying, "_PAUSES", (0.0, 0.0, 0.0))
    reader, blob = BlobReader("failing://"), Blob("failing://1.jpg", SIZE)
    monkeypatch.setattr(storage, "file_system_of", lambda path: Failing(error, 1000))
    if code is not None:
        assert reject_of(reader, blob) == code
        return
    with pytest.raises(MachineError):
        reader.read(blob)
    if not isinstance(error, (MachineError, PermissionError)):  # a retry does not help these
        store = Failing(error, 3)
        monkeypatch.setattr(storage, "file_system_of", lambda path: store)
        assert reader.read(blob) == b"x" * SIZE


class Strange(BaseException):
    """An exception as raised by libraries in other languages."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("nor this")


def test_any_exception_rejects_the_input_except_exits(subtests):
    odd = [RecursionError("too deep"), OSError("broken data"), StopIteration(3)]
    for error in (*odd, Strange(), Speechless()):
        with subtests.test(error=error):
            with pytest.raises(RejectedInputError) as caught, reject_errors():
                raise error
            assert caught.value.code == "INTERNAL"
            assert caught.value.detail.startswith(type(error).__name__)
            assert caught.value.__cause__ is error
    of_the_machine = [MemoryError(), OSError(5, "EIO"), ImportError()]
    for error in (KeyboardInterrupt(), SystemExit(1), *of_the_machine):
        with subtests.test(error=error), pytest.raises(type(error)), reject_errors():
            raise error


# --- Writing ---


def test_failed_write_names_the_file_and_leaves_nothing(tmp_path):
    def write() -> None:
        with write_atomically(str(tmp_path / "wanted"), temporary_folder=str(tmp_path)) as stream:
            stream.write(b"half")
            raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match=r"No space left on device: '.*wanted'"):
        write()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["", "memory:/"])
@pytest.mark.parametrize("other", ["", "memory:/"])
def test_copying_replaces_the_target(tmp_path, scheme, other):
    source, target = f"{scheme}{tmp_path}/a", f"{other}{tmp_path}/b"
    write_text(source, "new", temporary_folder=f"{scheme}{tmp_path}")
    write_text(target, "older", temporary_folder=f"{other}{tmp_path}")
    is_link = copy_file(source, target, temporary_folder=f"{other}{tmp_path}")
    assert is_link == (not scheme and not other)
    copy_file(source, target, temporary_folder=f"{other}{tmp_path}")  # a retry
    assert read_bytes(target) == read_bytes(source) == b"new"
    assert {path.name for path in tmp_path.iterdir()} <= {"a", "b"}


def test_failed_write_names_the_final_path(tmp_path):
    """The temporary name would mean nothing to users."""
    path = str(tmp_path / "none" / "file")
    with (
        pytest.raises(FileNotFoundError) as caught,
        write_atomically(path, temporary_folder=os.path.dirname(path)),
    ):
        pass
    assert caught.value.filename == path


def test_bare_name_is_written_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text("report.html", "page", temporary_folder=str(tmp_path))
    assert (tmp_path / "report.html").read_text() == "page"


def test_pipe_is_written_to_and_not_replaced(tmp_path, subtests):
    """A rename would replace /dev/null with a file, for everybody on the machine."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink("pipe", tmp_path / "link")
    for name in ("pipe", "link"):
        with (
            subtests.test(name=name),
            subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE) as reader,
        ):
            write_text(str(tmp_path / name), "page", temporary_folder=str(tmp_path))
            assert reader.communicate()[0] == b"page"
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]
