"""Read raw inputs until they are converted, and then the shards: `convert_to`.

    conversion = train.conversion
    conversion.status, conversion.reads_from       # ('finished', '/data/out/artifacts/…/1')

The shards have the records of the raw inputs in the same order, with the same bytes. So a batch is
the same from either, and each process may change over at the start of any epoch.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trainer_utils import storage
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.printable import printable
from trainer_utils.dataset.location import BALANCED_FOLDER, datasets_in, newest_dataset
from trainer_utils.dataset.opening import Dataset, open_dataset
from trainer_utils.dataset.raw_inputs import RawDataset, changed_since
from trainer_utils.dataset.selection import Source
from trainer_utils.format import Feature, SplitRange
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.format.slices import FileRange, RecordName
from trainer_utils.reading.background_conversion import (
    BackgroundConversion,
    ConversionRequest,
    conversion_here,
    start_conversion,
)
from trainer_utils.reading.opening import raw_to_convert
from trainer_utils.reading.raw_reader import checks_of
from trainer_utils.reading.record_reader import RecordReader
from trainer_utils.runtime.fork_lock import ForkLock

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

_logger = logging.getLogger(__name__)
_MAX_NAMED = 3  # changed files in a message
_MAX_DATASETS = 8  # of a bucket to look at, the newest first


class InputConversion:
    """The conversion of an input's raw files, and the reader of its records.

    Args:
        sources: the splits to read, with one raw dataset among them.
        options: the settings of the input, with an absolute `convert_to`.
        reader: the reader of the raw inputs.
    """

    def __init__(
        self, sources: Sequence[Source], options: "InputOptions", reader: RecordReader
    ) -> None:
        self._sources, self._options, self._reader = sources, options, reader
        self._raw, self._checks = raw_to_convert(sources), checks_of(sources, options)
        self._request = _request_of(self._raw, options)
        self._converted: Dataset | None = None
        self._looked_at, self._why = -1, ""
        self._lock = ForkLock()

    def __repr__(self) -> str:
        return f"InputConversion(to {self._request.out!r}: {self.status}; reads {self.reads_from})"

    @property
    def out(self) -> str:
        """The folder of the conversion."""
        return self._request.out

    @property
    def status(self) -> str:
        """`running`, `finished` or `failed`; `elsewhere` if another process converts."""
        here = conversion_here(self._request)
        if self._converted is not None:
            return "finished"
        if here is None:
            return "elsewhere"
        if here.is_running:
            return "running"
        return "finished" if here.error is None else "failed"

    @property
    def reason(self) -> str:
        """The reason that the raw files are still read, or an empty string."""
        if self._converted is not None:
            return ""
        here = conversion_here(self._request)
        return (here and here.error) or self._why

    @property
    def reads_from(self) -> str:
        """The raw inputs, or the uri of the converted dataset once this process reads it."""
        return self._raw.uri if self._converted is None else self._converted.uri

    @property
    def background(self) -> BackgroundConversion | None:
        """The conversion if this process started it."""
        return conversion_here(self._request)

    def start(self, worker: int) -> None:
        """Start the conversion in a process of the first worker, unless it is finished.

        Args:
            worker: the number of this worker.

        Raises:
            ConfigError: the inputs cannot be converted to this folder.
        """
        if worker == 0 and self._converted is None:
            start_conversion(self._request)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the conversion that this process started has ended.

        Args:
            seconds: the longest time to wait. None: as long as it takes.

        Returns:
            Whether the conversion has ended here; False if another process converts.
        """
        here = conversion_here(self._request)
        return here is not None and here.wait(seconds)

    def reader_of(self, epoch: int) -> RecordReader:
        """Return the reader for an epoch. The first call for an epoch looks for the shards."""
        if epoch > self._looked_at:
            with self._lock:
                if epoch > self._looked_at:
                    if self._converted is None:
                        self._look(epoch)
                    else:  # a thread that was still in the epoch before may have read raw files
                        self._raw.raw.release()
                    self._looked_at = epoch
        return self._reader

    def _look(self, epoch: int) -> None:
        """Read the shards from now on if there are some; else log the reason once."""
        here = conversion_here(self._request)
        has_ended = here is None or not here.is_running  # before the look, which may miss its end
        try:
            converted = find_converted(
                self._raw, self._request.out, self._checks, names_changes=here is not None
            )
            if isinstance(converted, Dataset) and self._reader.unreadable:
                converted = f"{len(self._reader.unreadable)} records of raw files were replaced"
            if isinstance(converted, Dataset):
                self._reader = ConvertedReader(
                    self._sources, self._options, self._reader, self._raw, converted
                )
                self._converted = converted
                self._raw.raw.release()
                level = logging.DEBUG if here is None else logging.INFO
                _logger.log(
                    level, "epoch %d: reads the shards of %s", epoch, printable(converted.uri)
                )
                return
        except (DatasetError, ConfigError, OSError) as error:
            converted = str(error)
        if here is None:  # the process that converts reports
            self._why = converted
        elif not has_ended:
            if self._looked_at >= 0:
                _logger.warning(
                    "epoch %d is read from the raw files of %s, since their conversion to %s is "
                    "not finished",
                    *(epoch, printable(self._raw.uri), printable(self._request.out)),
                )
        elif here.error is None and converted != self._why:
            self._why = converted
            _logger.warning(
                "epoch %d is read from the raw files of %s, not from their conversion to %s: %s",
                *(
                    epoch,
                    printable(self._raw.uri),
                    printable(self._request.out),
                    printable(converted),
                ),
            )


def _request_of(raw: RawDataset, options: "InputOptions") -> ConversionRequest:
    settings, fingerprint = options.conversion or {}, raw.listing.fingerprint
    return ConversionRequest(raw.uri, settings, str(options.convert_to), fingerprint)


def find_converted(
    raw: RawDataset,
    out: str,
    checks: Mapping[str, frozenset[str]],
    *,
    names_changes: bool = True,
) -> Dataset | str:
    """Return the dataset that a conversion made of raw inputs, or the reason for a missing one.

    Args:
        raw: the raw inputs.
        out: the folder of the conversion.
        checks: the facts of features that batches depend on; see `RawRecords`.
        names_changes: whether the reason has the names of changed files, which takes a walk.
    """
    places = [newest_dataset(out)]
    if storage.is_remote(out):  # it has no link to the newest dataset
        folder = storage.join(out, BALANCED_FOLDER)
        places = datasets_in([folder])[:_MAX_DATASETS] if storage.exists(folder) else []
    reason = ""
    for place in places:
        if storage.exists(storage.join(place, MANIFEST_FILE)):
            dataset = open_dataset(place)
            difference = _difference(raw, dataset, checks, names_changes=names_changes)
            if not difference:
                return dataset
            reason = reason or difference
    return reason or "there is no dataset yet"


def _difference(
    raw: RawDataset,
    dataset: Dataset,
    checks: Mapping[str, frozenset[str]],
    *,
    names_changes: bool,
) -> str:
    """Return the reason why a dataset cannot replace raw inputs, or an empty string."""
    here, there = raw.listing, dataset.listing
    if there is None:
        return "it has no list of its inputs, listing.json"
    if there.rejected:
        names = ", ".join(there.rejects[:_MAX_NAMED])
        more = ", …" if there.rejected > _MAX_NAMED else ""
        return (
            f"it rejected {there.rejected} inputs ({names}{more}), so records after them have "
            "other numbers. Fix or remove these inputs before the next run"
        )
    if here.fingerprint != there.fingerprint:
        changed: list[str] = []
        if names_changes and here.newest is not None and storage.is_folder(raw.uri):
            changed = changed_since(raw.uri, here.newest)
        names = ", ".join(changed[:_MAX_NAMED]) + (", …" if len(changed) > _MAX_NAMED else "")
        shown = f": {names}" if names else ", such as removed ones"
        return f"it has other inputs than were listed when training started{shown}"
    if here.digest != there.digest or raw.records != dataset.records:
        return "it has other settings or another order of records"
    for name, facts in checks.items():
        if name not in raw.features:  # another dataset has it
            continue
        if _contradicts(raw.features[name], dataset.features.get(name), facts):
            return (
                f"it describes feature {name!r} by all files, as {dataset.features.get(name)}, and "
                f"the raw files were described by the first of them, as {raw.features[name]}"
            )
    return ""


def _contradicts(raw: Feature, whole: Feature | None, facts: frozenset[str]) -> bool:
    """Return whether the feature of all files differs in a fact that batches depend on."""
    if whole is None or raw.type != whole.type or raw.has_pixels != whole.has_pixels:
        return True
    if not raw.has_pixels:
        numbers = [name for name in ("sample_rate", "channels") if name in facts & raw.extra.keys()]
        return any(whole.extra.get(name) != raw.extra[name] for name in numbers)
    if "channels" in facts and len(raw.shape) == 2 != len(whole.shape):
        return True
    is_fixed = raw.is_fixed_size and facts >= {"height", "width"}
    if is_fixed and (not whole.is_fixed_size or raw.shape[:2] != whole.shape[:2]):
        return True
    return int(str(whole.extra.get("bits", 8))) > int(str(raw.extra.get("bits", 8)))


class ConvertedReader(RecordReader):
    """Reader of shards at the positions of the raw inputs that they were converted from.

    Args:
        sources: the splits to read, from raw inputs.
        options: the settings of the input.
        reader: the reader of the raw inputs. Unreadable records keep the names that they have
            there, as the order and the ledger name them.
        raw: the raw inputs.
        converted: the dataset converted from them.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: "InputOptions",
        reader: RecordReader,
        raw: RawDataset,
        converted: Dataset,
    ) -> None:
        self._raw_names = dict[str, tuple[str, int]]()  # by shard: the raw "shard", first record
        splits = {shards[0].path: split for split, shards in raw.shards.items()}
        for path, split in splits.items():
            begin = 0
            for shard in converted.shards[split]:
                self._raw_names[shard.path] = path, begin
                begin += shard.num_records

        def ranges_of(part: FileRange) -> Sequence[FileRange]:
            if part.path not in splits:
                return [part]
            wanted = SplitRange(splits[part.path], part.skip, part.stop)
            return part.divided(converted.file_ranges(wanted))

        replaced = [
            dataclasses.replace(
                source,
                dataset=converted,
                ranges=[file_range for part in source.ranges for file_range in ranges_of(part)],
            )
            if source.dataset is raw
            else source
            for source in sources
        ]
        ranges = [file_range for part in reader.ranges for file_range in ranges_of(part)]
        super().__init__(replaced, options, ranges, reader.counters)
        self.unreadable = reader.unreadable

    def name_of(self, index: int, number: int) -> RecordName:
        """Return the name of a record in the raw inputs."""
        name = super().name_of(index, number)
        path, begin = self._raw_names.get(name.path, (name.path, 0))
        return RecordName(path, begin + name.number)
