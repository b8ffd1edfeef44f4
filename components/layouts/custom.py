"""Define custom layouts: a function that yields one item for each example.

    from components.layouts import Item, layout

    @layout("mine", detect=lambda folder: "index.txt" in folder.list())
    def read(folder):
        for line in folder.read_text("index.txt").splitlines():
            name, split, label = line.split()
            yield Item({"image": folder.file(name), "label": label}, split=split)

A layout is registered when its module is imported, or in every process by an entry point:

    [project.entry-points."tfx_shards.layouts"]
    mine = "my_package.layouts"

Then `layout="mine"` works in ImageExampleGen, TextExampleGen, AudioExampleGen, `convert` and
`tfx-shards convert --layout mine`. With `detect`, so does `auto`. Workers read the files later.
"""

import collections
import dataclasses
import functools
import hashlib
import inspect
import io
import marshal
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from absl import logging

from components.layouts.names import MEDIA
from components.layouts.registry import KINDS, Detection, Layout, all_layouts, register
from trainer_utils.core.errors import ConfigError, DatasetError, InputError
from trainer_utils.format.naming import canonical_split, check_split_name

if TYPE_CHECKING:
    from components.inputs.input_table import Entry, ExcludedInput, InputTable
    from components.inputs.listing import LayoutInputs

_Read = TypeVar("_Read", bound=Callable[["Folder"], Iterable["Item"]])
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_RANK = 0  # before the built-in layouts
_NO_MATCH = (OSError, LookupError, DatasetError)


class File(NamedTuple):
    """A file of an item, which a worker reads later. `path` is relative to the folder."""

    path: str


@dataclasses.dataclass(frozen=True)
class Item:
    """One example.

    Args:
        values: value of each feature: a file from `Folder.file`, a str, a number, a list of either,
            or None. Strings of `label` become ids of a vocabulary. Every item has the same files.
        split: `train`, `eval` or `test` in any usual spelling, or another name. None: a hash
            decides.
        name: unique name of the example. Default: the path of its first file, or its number.
    """

    values: Mapping[str, Any]
    split: str | None = None
    name: str | None = None


class Folder:
    """The folder of the inputs without junk and ignored files."""

    def __init__(self, inputs: "LayoutInputs") -> None:
        self._inputs = inputs

    def list(self) -> Sequence[str]:
        """Return the paths of all files, sorted."""
        return self._paths

    @functools.cached_property
    def _paths(self) -> Sequence[str]:
        inputs = self._inputs
        files = inputs.files.below(inputs.root)
        return tuple("/".join(inputs.parts_of(path)) for path in files)

    def open(self, name: str) -> BinaryIO:
        """Open a small file, such as an index.

        It is read as a whole, and its content is a part of the inputs' fingerprint.

        Args:
            name: path relative to the folder.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return io.BytesIO(self._inputs.read_bytes(self._path(name)))

    def read_text(self, name: str) -> str:
        """Read a small UTF-8 file.

        Args:
            name: path relative to the folder.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return self._inputs.read_text(self._path(name))

    def file(self, name: str) -> File:
        """Return a file for an item. If it is missing, the item is rejected as `FILE_NOT_FOUND`.

        Args:
            name: path relative to the folder.
        """
        return File(name)

    def _path(self, name: str) -> str:
        path = posixpath.normpath(posixpath.join(self._inputs.root, name))
        if path not in self._inputs.files:
            raise FileNotFoundError(f"{name!r}: no such file in {self._inputs.base!r}")
        return path


def layout(
    name: str,
    *,
    detect: Callable[[Folder], object] | None = None,
    kinds: Sequence[str] = KINDS,
    tree: str = "",
) -> Callable[[_Read], _Read]:
    """Register a function that yields an `Item` for each example of a folder.

    Args:
        name: the value of the setting `layout`: letters, digits, `_`, `-` and `.`.
        detect: function that returns whether a folder has this layout. Custom layouts are tried
            before all others. An error because a file is missing means no. None: the layout must
            be named.
        kinds: ExampleGens that can read it: `image`, `text`, `audio`.
        tree: drawing of the files, for `tfx-shards layouts`.

    Raises:
        ConfigError: the name or a kind is not allowed, or another module has registered the name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "auto":
        raise ConfigError.of("layout", name, allowed="a name such as 'mine'")
    if not kinds or not {*kinds} <= {*KINDS}:
        raise ConfigError.of("kinds", kinds, allowed=f"one or more of {', '.join(KINDS)}")

    def add(read: _Read) -> _Read:
        """Register the layout whose items the function yields."""
        register(
            Layout(
                name=name,
                kinds=tuple(kinds),
                rank=_RANK,
                tree=tree or (inspect.getdoc(read) or "").strip(),
                features="those of its items",
                splits="those of its items",
                detect=functools.partial(_detect, detect),
                read=functools.partial(_read_items, name, read),
                takes_columns=True,
                custom=read,
            )
        )
        return read

    return add


def code_digest(name: str, kind: str) -> str:
    """Return a digest of the source code of the custom layouts that may read inputs.

    It makes sure that cached results of other code are not reused.

    Args:
        name: the setting `layout`.
        kind: the kind of the inputs: `image`, `text` or `audio`.

    Returns:
        The digest, or an empty string if no custom layout may read the inputs.
    """
    digest, count = hashlib.sha256(), 0
    for layout in all_layouts(kind):
        if layout.custom is not None and name in ("auto", layout.name):
            try:
                code = inspect.getsource(inspect.getmodule(layout.custom) or layout.custom)
            except (OSError, TypeError):  # defined in an interactive interpreter
                code = repr(marshal.dumps(getattr(layout.custom, "__code__", None)))
            digest.update(f"{layout.name}\0{code}\0".encode())
            count += 1
    return digest.hexdigest() if count else ""


def _detect(detect: Callable[[Folder], object] | None, inputs: "LayoutInputs") -> Detection:
    if detect is None:
        return Detection.miss("it has no detection function: select it by name")
    if inputs.root in inputs.files:
        return Detection.miss("a file, not a folder")
    try:
        is_match = detect(Folder(inputs))
    except _NO_MATCH as error:
        return Detection.miss(str(error))
    return Detection.match("its own detection") if is_match else Detection.miss("its own detection")


def _read_items(
    name: str, read: Callable[[Folder], Iterable[Item]], inputs: "LayoutInputs"
) -> "InputTable":
    """Return the table of the items that a layout yields.

    Raises:
        InputError: the layout yields no items, something else, or values of mixed types.
    """
    from components.inputs.input_table import BlobColumn, InputTable
    from components.tables.column_types import LABEL_NAMES, check_columns

    items = [_checked(name, number, item) for number, item in enumerate(read(Folder(inputs)))]
    if not items:
        raise InputError.at(inputs.base, expected=f"items of layout {name!r}", got="none")
    keys = [*dict.fromkeys(key for item in items for key in item.values)]
    check_columns(inputs.columns, keys, of=f"layout {name!r}")
    files = [key for key in keys if any(isinstance(i.values.get(key), File) for i in items)]
    if "filename" in files:
        raise InputError(
            f"layout {name!r}: the feature name 'filename' is reserved. Rename that file of the "
            "items."
        )
    kinds = {key: _kind_of(key, items, inputs) for key in files}
    columns, values = _columns(name, [key for key in keys if key not in files], items, inputs)
    labels = [n for n, c in enumerate(columns) if c.name.lower() in LABEL_NAMES and not c.is_list]
    entries: list[Entry] = []
    excluded: list[ExcludedInput] = []
    taken = collections.Counter[str]()
    for number, (item, row) in enumerate(zip(items, values, strict=True)):
        _add(inputs, item, row, files, labels, f"{name}/{number:08d}", taken, entries, excluded)
    used = {blob.path for entry in entries for blob in entry.blobs} | {*inputs.contents}
    if unused := len(inputs.files.below(inputs.root)) - len(used):
        logging.warning("layout %r: %d files are in no item and are not read", name, unused)
    blobs = tuple(BlobColumn(key, kinds[key]) for key in files)
    return InputTable.of(entries, excluded, columns, blobs)


def _add(
    inputs: "LayoutInputs",
    item: Item,
    row: tuple[Any, ...],
    files: Sequence[str],
    labels: Sequence[int],
    number: str,
    taken: "collections.Counter[str]",
    entries: "list[Entry]",
    excluded: "list[ExcludedInput]",
) -> None:
    """Add an item to the entries, or to the excluded inputs."""
    from components.inputs.input_table import Blob, Entry, ExcludedInput

    paths = {key: item.values.get(key) for key in files}
    first = next((value.path for value in paths.values() if isinstance(value, File)), number)
    entry_name = item.name or posixpath.join(inputs.root, first)
    taken[entry_name] += 1
    if taken[entry_name] > 1:
        entry_name = f"{entry_name}#{taken[entry_name]}"
    split = inputs.split or item.split
    blobs = []
    for key, value in paths.items():
        if not isinstance(value, File):
            excluded.append(
                ExcludedInput(entry_name, split, "FILE_NOT_FOUND", f"no file for {key!r}")
            )
            return
        path = posixpath.normpath(posixpath.join(inputs.root, value.path))
        file = inputs.files.get(path)
        if file is None:
            detail = f"{key!r} names {value.path!r}, which is not there"
            excluded.append(ExcludedInput(entry_name, split, "FILE_NOT_FOUND", detail))
            return
        if file.problem is not None:
            excluded.append(ExcludedInput(entry_name, split, *file.problem))
            return
        blobs.append(Blob(path, file.size))
    if any(row[place] is None for place in labels):
        excluded.append(ExcludedInput(entry_name, split, "NO_LABEL", "an item without a label"))
        return
    entries.append(Entry(entry_name, split, tuple(blobs), row))


def _checked(name: str, number: int, item: object) -> Item:
    if not isinstance(item, Item) or not isinstance(item.values, Mapping) or not item.values:
        raise InputError(
            f"layout {name!r}, item {number}: expected Item({{feature: value}}, split=…), got "
            f"{item!r:.200}. Yield one Item for each example."
        )
    split = item.split
    if split is not None:
        split = canonical_split(split) or check_split_name(split)
    return dataclasses.replace(item, split=split)


def _kind_of(key: str, items: Sequence[Item], inputs: "LayoutInputs") -> str:
    """Return the kind of a feature's files: as set by the user, or by its name or their suffix."""
    from components.layouts.file_kinds import kind_of_name

    kind_of_key = inputs.columns.get(key)
    if kind_of_key is not None or key in MEDIA:
        return kind_of_key or key
    paths = (i.values[key].path for i in items if isinstance(i.values.get(key), File))
    kinds = collections.Counter(kind_of_name(path) for path in paths)
    kind = kinds.most_common(1)[0][0]
    return kind or ("text" if inputs.media == "text" or key == "text" else inputs.media)


def _columns(
    name: str, keys: Sequence[str], items: Sequence[Item], inputs: "LayoutInputs"
) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Return the columns of the values that are not files, and the values of each item."""
    import pyarrow as pa

    from components.layouts.list_table import typed_values

    columns, by_column = [], []
    for key in keys:
        if inputs.columns.get(key) == "ignore":
            continue
        try:
            array = pa.array([_plain(item.values.get(key)) for item in items])
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InputError(
                f"layout {name!r}, value {key!r}: expected strings, numbers or lists of one type, "
                f"got {error}. Convert them in the layout."
            ) from error
        place = lambda row: f"layout {name!r}, item {row}"  # noqa: E731
        kind = inputs.columns.get(key)
        if (typed := typed_values(key, [(array, False)], kind=kind, place=place)) is not None:
            columns.append(typed[0])
            by_column.append(typed[1])
    rows = list(zip(*by_column, strict=True)) if columns else [()] * len(items)
    return tuple(columns), rows


def _plain(value: Any) -> Any:
    """Convert numpy arrays and scalars to Python objects for Arrow."""
    return value.tolist() if hasattr(value, "tolist") else value
