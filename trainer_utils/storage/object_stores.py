"""Access objects of S3-compatible stores and of Azure through obstore, Rust's object_store.

Requests are retried if the store or the network fails; `store_settings` has the limits. Later
requests for an object ask for the version of the first one, so a change raises an error. A new
object is sent in parts, and appears when its stream is closed.
Source: https://developmentseed.org/obstore/latest/, https://docs.rs/object_store
"""

import functools
import io
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from trainer_utils.core.errors import ConfigError
from trainer_utils.storage.file_system import FileSystem, FolderEntry, InputFile
from trainer_utils.storage.host_errors import FileRefusedError, MachineError, changed_size
from trainer_utils.storage.store_process import ForkedStore, StoreProcess
from trainer_utils.storage.store_settings import VARIABLES, open_store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer
    from obstore import GetOptions, ObjectMeta, WritableFile
    from obstore.store import ObjectStore

PART_BYTES = 8 << 20
"""The maximum size of one request; S3 needs parts of 5 MiB or more."""

_FIRST_BYTES = 256 << 10  # a stream's first request, small to be fast; then twice as many each
_PARTS_AHEAD = 4  # concurrent requests for a stream that is read sequentially
_PARTS_AT_ONCE = 4  # of one object that is written
_LISTED_AT_ONCE = 1000  # objects: the page size of the stores
# Up to this many names are looked up one by one: a folder of 50,000 objects has 50 pages.
_FEW_NAMES = 3
_LIST_FROM_A_KEY = ("S3Store",)  # stores with listings that can begin at a key
_RETRIED = " retries, max_retries: "  # in object_store's errors after more than one attempt


class _ObjectStores(FileSystem):
    appears_whole = is_seen_by_others = walks_in_pages = True

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        with _at(path, to_read=True) as (store, key):
            return cast(BinaryIO, io.BufferedReader(_ObjectReader(path, store, key), 64 << 10))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        if stop is not None and stop <= start:
            return b""
        if stop is None or stop - start > PART_BYTES:
            with self.open(path) as stream:
                stream.seek(start)
                return stream.read(-1 if stop is None else stop - start)
        with _at(path, to_read=True) as (store, key):
            return bytes(_get(store, key, start, stop)[0])

    def info(self, path: str) -> FolderEntry:
        with _at(path) as (store, key):
            if key and (info := _head(store, key)) is not None:
                version = f"{info['size']}-{_version(info)}"
                return FolderEntry(_name(key), int(info["size"]), version=version)
            if not _has_folder(store, key):
                raise FileNotFoundError(path)
            return FolderEntry(_name(key), None, is_folder=True)

    def list_folder(self, path: str) -> list[FolderEntry]:
        with _at(path) as (store, key):
            listing = store.list_with_delimiter(key or None)
            folders = [FolderEntry(_name(each), None, True) for each in listing["common_prefixes"]]
            files = [
                FolderEntry(_name(info["path"]), int(info["size"]), version=_version(info))
                for info in listing["objects"]
                if _is_file(store, info)
            ]
            if not folders + files and not _has_folder(store, key):
                raise FileNotFoundError(path)
            return folders + files

    def find_in_folder(self, folder: str, names: Sequence[str]) -> dict[str, InputFile]:
        """Return the existing files among `names`. A few take one page of the listing each."""
        with _at(folder) as (store, key):
            skipped = len(key) + 1 if key else 0
            if len(names) <= _FEW_NAMES and type(store).__name__ in _LIST_FROM_A_KEY:
                infos = [_first_from(store, key, name) for name in names]
                objects = [info for info in infos if info is not None]
            else:
                objects = [*store.list_with_delimiter(key or None)["objects"]]
            by_name = {info["path"][skipped:]: info for info in objects}
            return {
                name: InputFile(name, int(by_name[name]["size"]), _version(by_name[name]))
                for name in names
                if name in by_name and _is_file(store, by_name[name])
            }

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        with _at(base) as (store, key):
            skipped = len(key) + 1 if key else 0
            for page in store.list(_prefix(key), chunk_size=_LISTED_AT_ONCE):
                for info in page:
                    if _is_file(store, info):
                        yield InputFile(info["path"][skipped:], int(info["size"]), _version(info))

    def create(self, path: str) -> BinaryIO:
        import obstore

        with _at(path) as (store, key):
            if _forked_from:
                raise OSError(
                    f"{path!r}: cannot be written in a process that was forked from process "
                    f"{_forked_from}, which has connections to the store. Start it by 'spawn' or "
                    "'forkserver'."
                )
            writer = obstore.open_writer(
                store, key, buffer_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
            return cast(BinaryIO, _ObjectWriter(path, writer))

    def rename(self, source: str, target: str) -> None:
        if self.duplicate(source, target, "") is None:
            raise ConfigError(f"{target!r}: expected a name in the bucket of {source!r}")
        self.remove(source)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        with _at(source) as (store, key), _at(target) as (others, new):
            if store is not others:
                return None
            store.copy(key, new)
            return False

    def remove(self, path: str) -> None:
        self.info(path)  # stores accept the deletion of a missing object
        with _at(path) as (store, key):
            store.delete(key)

    def remove_tree(self, path: str) -> None:
        with _at(path) as (store, key):
            for page in store.list(_prefix(key), chunk_size=_LISTED_AT_ONCE):
                store.delete([info["path"] for info in page])


OBJECT_STORES: FileSystem = _ObjectStores()


class _ObjectReader(io.RawIOBase):
    """An object as a stream that reads ahead: small requests first, then large concurrent ones."""

    def __init__(self, path: str, store: "ObjectStore", key: str) -> None:
        self._path, self._store, self._key = path, store, key
        self._position = self._start = 0
        self._next_bytes = _FIRST_BYTES
        self._data, info = _get(store, key, 0, _FIRST_BYTES)
        self._tag, self._size = info["e_tag"], int(info["size"])
        self._asked: deque[Future[memoryview]] = deque()  # requests for the bytes after `_data`
        self._asked_to = len(self._data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = max((0, self._position, self._size)[whence] + offset, 0)
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        part = self._take(len(view))
        view[: len(part)] = part
        return len(part)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._take(self._size - self._position), b""))

    def close(self) -> None:
        self._forget()
        self._data = memoryview(b"")
        super().close()

    def _take(self, wanted: int) -> memoryview:
        """Return at most `wanted` bytes from the position; none at the end."""
        if wanted <= 0 or self._position >= self._size:
            return memoryview(b"")
        if not self._start <= self._position < self._start + len(self._data):
            is_jump = self._position != self._start + len(self._data)
            if is_jump:  # more jumps may follow, so request only the wanted bytes
                self._forget()
                self._next_bytes, self._asked_to = _FIRST_BYTES, self._position
            self._ask(wanted, most=1 if is_jump else _PARTS_AHEAD)
            with _os_errors(self._path):
                self._data, self._start = self._asked.popleft().result(), self._position
            if not is_jump:
                self._ask(wanted - len(self._data))
        begin = self._position - self._start
        part = self._data[begin : begin + wanted]
        self._position += len(part)
        return part

    def _ask(self, wanted: int, most: int = _PARTS_AHEAD) -> None:
        """Request the next bytes: one request at a time while sizes grow, then several at once."""
        while len(self._asked) < most and self._asked_to < self._size:
            if self._asked and self._next_bytes < PART_BYTES and wanted <= 0:
                return
            size = min(max(self._next_bytes, wanted), PART_BYTES, self._size - self._asked_to)
            future = _pool().submit(self._part, self._asked_to, self._asked_to + size)
            self._asked.append(future)
            self._asked_to += size
            self._next_bytes = min(2 * self._next_bytes, PART_BYTES)
            wanted -= size

    def _forget(self) -> None:
        while self._asked:
            self._asked.popleft().cancel()

    def _part(self, start: int, stop: int) -> memoryview:
        data, _ = _get(self._store, self._key, start, stop, tag=self._tag)
        if len(data) != stop - start:
            raise changed_size(self._size, start + len(data))
        return data


class _ObjectWriter(io.RawIOBase):
    """An object that is sent in parts while it is written, and appears when it is closed."""

    def __init__(self, path: str, writer: "WritableFile") -> None:
        self._path = path
        self._writer: WritableFile | None = writer

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        if self._writer is None:
            raise ValueError("write to a closed object")
        view = memoryview(data).cast("B")
        with _os_errors(self._path):
            return self._writer.write(view)

    def close(self) -> None:
        writer, self._writer = self._writer, None
        super().close()
        if writer is not None:
            with _os_errors(self._path):
                writer.close()

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        if kind is not None:
            self._writer = None  # never closed: the object does not appear
        self.close()

    def __del__(self) -> None:
        self._writer = None


_forked_from = 0


def _note_fork() -> None:
    """Start without threads in a fork, and ask another process if there were stores."""
    global _forked_from
    _pool.cache_clear()
    _forked_store.cache_clear()
    _store_process.cache_clear()
    if _store.cache_info().currsize:
        _forked_from = os.getppid()


os.register_at_fork(after_in_child=_note_fork)


@functools.lru_cache(maxsize=256)
def _store(
    scheme: str, bucket: str, environment: tuple[object, ...], to_read: bool
) -> "ObjectStore":
    return open_store(scheme, bucket, to_read=to_read)


@functools.lru_cache(maxsize=256)
def _forked_store(
    scheme: str, bucket: str, environment: tuple[object, ...], to_read: bool
) -> "ObjectStore":
    process = _store_process(environment)
    return cast("ObjectStore", ForkedStore(process, scheme, bucket, to_read=to_read))


@functools.lru_cache(maxsize=4)
def _store_process(environment: tuple[object, ...]) -> StoreProcess:
    return StoreProcess()  # it starts with the variables that configure stores


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads that wait for requests of streams."""
    return ThreadPoolExecutor(16, thread_name_prefix="tfx-shards-store")


@contextmanager
def _at(url: str, *, to_read: bool = False) -> "Iterator[tuple[ObjectStore, str]]":
    """Yield the store of a url, within `_os_errors`, and the key (empty: the bucket)."""
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise ConfigError(f"{url!r}: expected the name of a bucket after {scheme}://, got none")
    with _os_errors(url):
        # A fork lacks obstore's threads, and would wait for them forever.
        open_it = _forked_store if _forked_from else _store
        yield open_it(scheme, bucket, _environment(), to_read), key.strip("/")


# The bytes that CPython holds: decoding 64 variables took a third of the time to request a photo.
_variables: Any = getattr(os.environ, "_data", os.environ)


def _environment() -> tuple[object, ...]:
    """Return the variables that configure stores, which are a key of the caches."""
    return tuple(item for item in _variables.items() if item[0].startswith(VARIABLES))


def _get(
    store: "ObjectStore", key: str, start: int, stop: int, *, tag: str | None = None
) -> tuple[memoryview, "ObjectMeta"]:
    """Return the bytes `[start, stop)` of an object, or fewer, and its metadata."""
    from obstore.exceptions import NotFoundError, PreconditionError

    options: GetOptions = {"range": (start, stop)}
    if tag is not None:
        options["if_match"] = tag
    try:
        result = store.get(key, options=options)
        info = result.meta
        return memoryview(result.bytes()), info
    except PreconditionError as error:
        detail = "expected the object that was opened, got another of that name"
        raise FileRefusedError("CHANGED_FILE", detail) from error
    except (NotFoundError, FileNotFoundError):
        raise
    except Exception as error:
        if _RETRIED in _first_line(error):  # the store refuses every attempt
            raise
        info = store.head(key)  # stores refuse a range past the end with different errors
        if start >= int(info["size"]):
            return memoryview(b""), info
        raise


def _head(store: "ObjectStore", key: str) -> "ObjectMeta | None":
    try:
        return store.head(key)
    except FileNotFoundError:
        return None


def _first_from(store: "ObjectStore", folder: str, name: str) -> "ObjectMeta | None":
    """Return the object with a name from one page of a listing that begins right before it."""
    whole = f"{folder}/{name}" if folder else name
    before = whole[:-1] + chr(ord(whole[-1]) - 1) + "~" if ord(whole[-1]) > 1 else whole[:-1]
    page = next(iter(store.list(_prefix(folder), offset=before, chunk_size=_LISTED_AT_ONCE)), [])
    return next((info for info in page if info["path"] == whole), None)


def _prefix(key: str) -> str | None:
    return f"{key}/" if key else None


def _has_folder(store: "ObjectStore", key: str) -> bool:
    """Return whether there is anything below a key. A bucket exists if listing it succeeds."""
    first = next(iter(store.list(_prefix(key), chunk_size=1)), None)
    return bool(first) or not key


def _is_file(store: "ObjectStore", info: "ObjectMeta") -> bool:
    """Return whether an object is a file and not an empty placeholder for a folder.

    Consoles create placeholders such as `cat/`; obstore returns their names without the last `/`.
    """
    return bool(info["size"]) or _head(store, info["path"]) is not None


def _version(info: "ObjectMeta") -> str:
    return str(info.get("version") or info.get("e_tag") or info["last_modified"])


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Convert other errors of obstore to `OSError`. The message has the number of attempts."""
    try:
        yield
    except (FileRefusedError, ConfigError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path!r}: there is no such object") from error
    except ImportError as error:
        raise ConfigError(f"{path!r}: {error}") from error
    except OSError:
        raise
    except Exception as error:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
            raise PermissionError(
                f"{path!r}: the store refused the credentials: {_first_line(error)}. Set them "
                "as for its own tools: an environment variable, a profile, the machine's identity."
            ) from error
        # obstore has retried it.
        raise MachineError(f"{path!r}: {_first_line(error)}", path=path) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
