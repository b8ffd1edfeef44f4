"""Raw inputs as datasets: the interface of the packages that can read them.

    dataset = open_raw("photos/", {"splits": {"train": 9, "eval": 1}})
    dataset.raw.read("train", [0, 17], {})          # serialized examples, each in parts

`trainer_utils` reads datasets. A package that can read raw inputs as the dataset that a conversion
makes of them registers a function in the entry point group `tfx_shards.raw_inputs`. A package that
can write this dataset registers a `RawConverter` in the group `tfx_shards.raw_converters`.
"""

import collections
import contextlib
import dataclasses
import functools
import importlib
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError
from trainer_utils.dataset.location import LATEST, DatasetFiles, Place, read_origin
from trainer_utils.dataset.opening import Dataset
from trainer_utils.format import naming
from trainer_utils.format.input_listing import InputListing
from trainer_utils.format.layouts import may_be_dataset
from trainer_utils.format.media_formats import EXTENSIONS

ENTRY_POINTS = "tfx_shards.raw_inputs"
CONVERTERS = "tfx_shards.raw_converters"
# A checkout may be installed without entry points.
_OWN_OPENER = "components.raw_inputs.opening:open_raw"
_OWN_CONVERTER = "pipelines.tools.conversion.raw_converter:CONVERTER"
_SOURCES = re.compile(r"\.(tar|tgz|tar\.gz|parquet|csv|tsv|jsonl|ndjson|json|zip)$", re.IGNORECASE)
# Names of a folder and folders of a level to look at, and the levels, to find out whether files are
# raw. Datasets have their records in the folder or one below.
_MAX_NAMES, _MAX_FOLDERS, _DEPTH = 1000, 8, 4
_SIGNS = {LATEST, naming.WORKING_FOLDER}
_CODE = re.compile(r": ([A-Z0-9_]{3,}): ")


class RejectedRecordError(DatasetError):
    """An input that cannot become a record. `code` is that of a conversion's reject."""

    def __init__(self, source: str, code: str, detail: str) -> None:
        super().__init__(f"{source}: {code}: {detail}")
        self.source, self.code, self.detail = source, code, detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.code, self.detail)


class RawRecords(Protocol):
    """The records of raw inputs, by their split and number. It can be pickled."""

    @property
    def listing(self) -> InputListing:
        """The identity of the dataset by its inputs."""

    @property
    def is_remote(self) -> bool:
        """Whether reading a record takes a request."""

    @property
    def listed_features(self) -> Collection[str]:
        """Features whose values are known without reading a file."""

    def listed(self, split: str, numbers: Sequence[int]) -> Sequence[Sequence[bytes]]:
        """Return serialized examples that only have the listed features, each in parts."""

    def read(
        self, split: str, numbers: Sequence[int], checks: Mapping[str, Collection[str]]
    ) -> "Sequence[Sequence[bytes] | RejectedRecordError]":
        """Return the serialized example of each record in parts, or the reason for a missing one.

        Args:
            split: the split.
            numbers: the numbers of the records.
            checks: by feature, the facts that must be as the features of the dataset say, since
                batches depend on them: `height`, `width`, `channels`, `bits`, `sample_rate`.

        Raises:
            ConfigError: one of these facts differs.
            MachineError: the machine failed.
        """

    def read_ahead(self, split: str, numbers: Sequence[int]) -> None:
        """Start reading the files of records that are needed soon."""

    def source_of(self, split: str, number: int) -> str:
        """Return the path of the input of a record."""

    def release(self) -> None:
        """Free this process's threads and the files in memory; a later read gets them again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawDataset(Dataset):
    """Raw inputs as the dataset that a conversion makes of them. Each split has one "shard".

    Args:
        raw: the records.
        values: the values of features by name, in the order of their ids.
    """

    raw: RawRecords
    values: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Hash of the listing, the settings and the order."""
        return self.raw.listing.digest

    @functools.cached_property
    def listing(self) -> InputListing:
        """The identity of the dataset by its inputs."""
        return self.raw.listing

    @functools.cached_property
    def vocabularies(self) -> Mapping[str, Sequence[str]]:
        """Class names by feature."""
        return self.values

    def split_of(self, path: str) -> str:
        """Return the split whose records have this path."""
        return next(split for split, shards in self.shards.items() if shards[0].path == path)


Opener = Callable[[str, Mapping[str, Any]], RawDataset]


class RawConverter(Protocol):
    """Writes the dataset that a conversion makes of raw inputs."""

    def check(self, place: str, conversion: Mapping[str, Any], out: str) -> None:
        """Raise ConfigError if raw inputs cannot be converted to a folder.

        Args:
            place: the raw inputs.
            conversion: the settings of the conversion, as for `convert`.
            out: the folder for the dataset.
        """

    def convert(self, place: str, conversion: Mapping[str, Any], out: str) -> str:
        """Convert raw inputs in this process, without starting others; resume an earlier run.

        Args:
            place: the raw inputs.
            conversion: the settings of the conversion, as for `convert`.
            out: the folder for the dataset.

        Returns:
            The uri of the dataset.
        """


def no_files(uri: str) -> DatasetFiles:
    """Return the empty list of a dataset's files."""
    return DatasetFiles(uri, {})


def open_raw(place: str, conversion: Mapping[str, Any]) -> RawDataset:
    """Open raw inputs as the dataset that `tfx-shards convert` makes of them.

    Args:
        place: a folder, a list or an archive, local or in a bucket.
        conversion: the settings of the conversion, as for `convert`.

    Raises:
        ConfigError: no installed package can read raw inputs, or a setting is not allowed.
        InputError: the inputs cannot be read as intended.
    """
    opener: Opener = _registered(_OWN_OPENER, ENTRY_POINTS)
    return opener(place, conversion)


def raw_converter() -> RawConverter:
    """Return the registered converter of raw inputs; raise ConfigError without one."""
    converter: RawConverter = _registered(_OWN_CONVERTER, CONVERTERS)
    return converter


_TASKS = {
    ENTRY_POINTS: "to read them without a conversion takes",
    CONVERTERS: "to convert them in the background takes",
}


@functools.cache
def _registered(own: str, group: str) -> Any:
    """Return what tfx-shards registers in a group of entry points, or else another package."""
    module, _, name = own.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
    package = module.partition(".")[0]
    if missing.partition(".")[0] == package:
        from trainer_utils.core.extras import entry_points  # imports 15 ms of the standard library

        others = [point for point in entry_points(group) if point.value != own]
        for point in sorted(others, key=lambda point: point.name):
            return point.load()
        rule = f"the package `{package}` of tfx-shards, which is not installed"
    else:
        rule = f"the package {missing!r}, which reads the list of inputs and is not installed"
    raise ConfigError(
        f"raw inputs: {_TASKS[group]} {rule}. Run pip install tfx-shards; "
        "or read a converted dataset, as tfx-shards convert writes it."
    )


_MEDIA = frozenset(ending for endings in EXTENSIONS.values() for ending in endings)


def is_raw(place: Place) -> bool:
    """Return whether a place has raw inputs, judging by the first names in the first folders.

    A folder with any sign of a dataset, complete or not, is a dataset.
    """
    if not isinstance(place, str):
        return False
    if not storage.is_folder(place):
        is_records = naming.is_named_as_records(place) or naming.BARE_RECORDS.search(place)
        return _is_source(place) and not is_records and storage.exists(place)
    has_source = False
    for names in _names_by_folder(place):
        if may_be_dataset(names) or not names.keys().isdisjoint(_SIGNS):
            return False
        has_source |= any(_is_source(n) for n, is_folder in names.items() if not is_folder)
    return has_source


def _names_by_folder(place: str) -> Iterator[Mapping[str, bool]]:
    """Yield for each of the first folders its first names, and whether each is a folder."""
    if storage.walks_in_pages(place):  # a folder's list would take all pages
        first = itertools.islice(storage.walk_files(place), _MAX_NAMES)
        by_folder: dict[str, dict[str, bool]] = collections.defaultdict(dict)
        for file in first:
            parts = file.path.split("/")[:_DEPTH]
            is_cut = file.path.count("/") >= _DEPTH
            for depth, name in enumerate(parts):
                is_folder = is_cut or depth < len(parts) - 1
                by_folder["/".join(parts[:depth])][name] = is_folder
        yield from by_folder.values()
        return
    level = [place]
    for _ in range(_DEPTH):
        level, above = [], level
        for folder in above[:_MAX_FOLDERS]:
            names = dict(_first_names(folder))
            yield names
            inner = [n for n, is_folder in names.items() if is_folder and not n.startswith(".")]
            level += [storage.join(folder, name) for name in inner[:_MAX_FOLDERS]]


def _is_source(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in _MEDIA or bool(_SOURCES.search(name))


def _first_names(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the first names in a folder, and whether each is a folder."""
    if storage.is_remote(folder):
        for entry in storage.list_folder(folder)[:_MAX_NAMES]:
            yield entry.name, entry.is_folder
        return
    try:
        with os.scandir(folder) as here:  # a folder may have millions of files
            for item in itertools.islice(here, _MAX_NAMES):
                yield item.name, item.is_dir()
    except OSError:
        return


def corrupt_record(number: int, problem: RejectedRecordError) -> CorruptShardError:
    """Return the error of a record whose input was rejected."""
    advice = "Fix or remove the file, or replace it by other records: on_corrupt='skip'."
    return CorruptShardError(f"{problem}. {advice}", path=problem.source, record=number)


def count_codes(reasons: Iterable[str]) -> dict[str, int]:
    """Return the number of rejected inputs by reject code, from the messages of `unreadable`."""
    matches = (_CODE.search(reason) for reason in reasons)
    return dict(sorted(collections.Counter(problem[1] for problem in matches if problem).items()))


def changed_since(folder: str, newest: int) -> list[str]:
    """Return the local files below a folder that changed after a time in nanoseconds."""
    names = []
    for file in storage.walk_files(folder):
        change = file.version.split("-")[1:2]
        if change and change[0].isdecimal() and int(change[0]) > newest:
            names.append(file.path)
    return sorted(names)


def inputs_folder(dataset: Dataset) -> str | None:
    """Return the local folder of a dataset's raw inputs, or None if it is not known here."""
    folder = dataset.uri if isinstance(dataset, RawDataset) else ""
    if not folder:
        with contextlib.suppress(DatasetError, OSError):
            if dataset.manifest is None:
                return None
            origin = read_origin(dataset.uri, dataset.manifest)
            steps = [origin.made_by, *(ancestor.made_by for ancestor in origin.ancestors)]
            bases = [step.settings.get("input_base") for step in steps if step is not None]
            folder = next((base for base in bases if isinstance(base, str)), "")
    is_here = bool(folder) and not storage.is_remote(folder) and storage.is_folder(folder)
    return folder if is_here else None
