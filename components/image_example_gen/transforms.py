"""Writes shards of images: one Beam element a shard.

pipeline | WriteImageShards(plan, base="photos/", uri=uri, settings=settings)
"""

import collections
import concurrent.futures
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam

from components.common.blobs import BlobReader
from components.common.files import (
    is_remote,
    join,
    make_folder,
    read_text,
    write_atomically,
    write_text,
)
from components.common.listing import Blob, Column, Entry, Value
from components.common.rejects import Reject, RejectedInputError
from components.common.summaries import working_folder, write_summary
from components.image_example_gen.images import StoredImage, store_image, store_label_map
from components.image_example_gen.plan import Plan, ShardTask, label_column
from components.image_example_gen.settings import ImageSettings
from trainer_utils.format import ShardName, ShardWriter, encode_example, keyed_hash
from trainer_utils.format.naming import split_folder

__all__ = ["ImageFacts", "ShardSummary", "WriteImageShards", "write_image_shard"]

# Files are read ahead in groups, since handing a thread one small file costs as much as reading
# it; small groups, since what is held beyond the processor's cache is written at half the pace.
# (threads, files in a group): an object store answers a request in some 30 ms.
_GROUP_BYTES = 8 << 20
_LOCAL, _REMOTE, _TABLE = (2, 16), (16, 8), (1, 16)


@dataclasses.dataclass
class ImageFacts:
    """Of one image feature of a shard.

    Args:
        shape: height, width and channels of the first; empty without one.
        one_size: whether all have that height and width.
        channels: the numbers of channels that occur.
        formats: the formats that occur.
    """

    shape: list[int] = dataclasses.field(default_factory=list)
    one_size: bool = True
    channels: list[int] = dataclasses.field(default_factory=list)
    formats: list[str] = dataclasses.field(default_factory=list)

    def add(self, image: StoredImage) -> None:
        """Takes one more image in."""
        size = [image.height, image.width]
        self.shape = self.shape or [*size, image.channels]
        self.one_size &= size == self.shape[:2]
        if image.channels not in self.channels:
            self.channels.append(image.channels)
        if image.format not in self.formats:
            self.formats.append(image.format)


@dataclasses.dataclass
class ShardSummary:
    """What became of one task.

    Args:
        split, shard_index: which shard.
        records, bytes, crc32c: as in the manifest.
        labels: how often each class occurs, by id.
        images: by feature.
        longest: of each list column, the most values.
        incomplete: columns that an example lacks.
        conversions: examples by what was done to their image.
        content: an order-free sum over all inputs, as 32 hexadecimal digits.
        rejects: what was left out.
    """

    split: str
    shard_index: int
    records: int = 0
    bytes: int = 0
    crc32c: int = 0
    labels: dict[int, int] = dataclasses.field(default_factory=dict)
    images: dict[str, ImageFacts] = dataclasses.field(default_factory=dict)
    longest: dict[str, int] = dataclasses.field(default_factory=dict)
    incomplete: list[str] = dataclasses.field(default_factory=list)
    conversions: dict[str, int] = dataclasses.field(default_factory=dict)
    content: str = ""
    rejects: list[Reject] = dataclasses.field(default_factory=list)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ShardSummary":
        """From what `dataclasses.asdict` and JSON made of one."""
        typed = {
            "labels": {int(label): count for label, count in value["labels"].items()},
            "images": {name: ImageFacts(**facts) for name, facts in value["images"].items()},
            "rejects": [Reject(**reject) for reject in value["rejects"]],
        }
        return cls(**{**value, **typed})

    def add(self, images: Mapping[str, StoredImage], plan: Plan, values: Sequence[Value]) -> None:
        """Takes one more example in."""
        for feature, image in images.items():
            self.images.setdefault(feature, ImageFacts()).add(image)
            for conversion in image.conversions:
                self.conversions[conversion] = self.conversions.get(conversion, 0) + 1
        for column, value in zip(plan.columns, values, strict=True):
            if isinstance(value, tuple):
                self.longest[column.name] = max(self.longest.get(column.name, 0), len(value))
            elif value is None and column.name not in self.incomplete:
                self.incomplete.append(column.name)


class WriteImageShards(beam.PTransform):
    """Writes every shard of a plan, with a summary beside each.

    Tasks go to workers as files, by name: a plan of a million inputs is too large for the graphs
    that runners take.

    Args:
        plan: the shards and what is in them.
        base: the folder that paths are relative to.
        uri: of the dataset.
        settings: of the component.
    """

    def __init__(self, plan: Plan, *, base: str, uri: str, settings: ImageSettings) -> None:
        super().__init__()
        self._names = [task.name for task in plan.tasks]
        self._fn = _WriteImageShardFn(dataclasses.replace(plan, tasks=()), base, uri, settings)
        for task in plan.tasks:
            write_task(working_folder(uri), task)

    def expand(self, begin: Any) -> Any:
        """The shards and their summaries are side effects; the output holds nothing."""
        return (
            begin
            | "CreateTasks" >> beam.Create(self._names)
            | "WriteShards" >> beam.ParDo(self._fn)
        )


@beam.typehints.with_input_types(str)
class _WriteImageShardFn(beam.DoFn):
    def __init__(self, plan: Plan, base: str, uri: str, settings: ImageSettings) -> None:
        self._plan, self._base, self._uri, self._settings = plan, base, uri, settings
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_written")
        self._rejects = beam.metrics.Metrics.counter("tfx_shards", "inputs_rejected")

    def process(self, name: str) -> None:
        task = read_task(working_folder(self._uri), name)
        summary = write_image_shard(
            task, self._plan, base=self._base, uri=self._uri, settings=self._settings
        )
        self._records.inc(summary.records)
        self._rejects.inc(len(summary.rejects))
        write_summary(working_folder(self._uri), name, dataclasses.asdict(summary))


def write_task(folder: str, task: ShardTask) -> None:
    """Keeps a task as a file of JSON, in which a name that is not UTF-8 is escaped."""
    path = join(folder, f"tasks/{task.name}.json")
    write_text(
        path,
        json.dumps((task.split, task.shard_index, task.num_shards, task.entries)),
        temporary_folder=folder,
    )


def read_task(folder: str, name: str) -> ShardTask:
    """The task that `write_task` kept."""
    text = read_text(join(folder, f"tasks/{name}.json"))
    split, shard_index, num_shards, entries = json.loads(text)
    return ShardTask(
        split,
        shard_index,
        num_shards,
        tuple(
            Entry(name, own_split, tuple(Blob(*blob) for blob in blobs), tuple(map(_tuple, values)))
            for name, own_split, blobs, values in entries
        ),
    )


def _tuple(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value


def write_image_shard(
    task: ShardTask, plan: Plan, *, base: str, uri: str, settings: ImageSettings
) -> ShardSummary:
    """Reads a task's images and writes its shard under the shard's final name.

    A bad image becomes a reject in the summary; failing to write raises.
    """
    summary = ShardSummary(task.split, task.shard_index)
    label_place = label_column(plan.columns)
    content = 0
    gzip = settings.compression == "gzip"
    name = ShardName(
        split=task.split, shard_index=task.shard_index, num_shards=task.num_shards, gzip=gzip
    )
    temporary_folder = working_folder(uri)
    make_folder(temporary_folder)
    make_folder(join(uri, split_folder(task.split)))
    with write_atomically(join(uri, name.path), temporary_folder=temporary_folder) as stream:
        writer = ShardWriter(stream, gzip=gzip)
        for entry, blobs in _read_ahead(task.entries, base):
            encoded_name = _text(entry.name)
            try:
                images = _store(entry, blobs, plan.blobs, settings)
            except RejectedInputError as error:
                summary.rejects.append(Reject(task.split, entry.name, error.code, error.detail))
                fact = encoded_name + b"\0" + error.code.encode()
            else:
                features = encode_values(plan.columns, entry.values)
                main = images[plan.blobs[0]]
                features |= {
                    "filename": encoded_name,
                    "height": main.height,
                    "width": main.width,
                    "channels": main.channels,
                }
                features |= {feature: image.data for feature, image in images.items()}
                crc = writer.write(encode_example(features))
                fact = encoded_name + b"\0%d\0%d" % (len(main.data), crc)
                summary.add(images, plan, entry.values)
                if label_place is not None:
                    _count(summary.labels, entry.values[label_place])
            content += keyed_hash(fact, seed=0, purpose="content")
        digest = writer.finish()
    summary.records, summary.bytes, summary.crc32c = digest.records, digest.bytes, digest.crc32c
    summary.content = f"{content % 2**128:032x}"
    return summary


def _store(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    features: Sequence[str],
    settings: ImageSettings,
) -> dict[str, StoredImage]:
    """What is kept of an entry's images, by feature; the first is the photo, others label maps."""
    if isinstance(blobs, RejectedInputError):
        raise blobs
    photo = store_image(blobs[0], settings.images, filename=entry.name)
    images = {features[0]: photo}
    for feature, data in zip(features[1:], blobs[1:], strict=True):
        images[feature] = label_map = store_label_map(data, settings.images)
        if (label_map.height, label_map.width) != (photo.height, photo.width):
            raise RejectedInputError(
                "LABEL_MAP_SIZE",
                f"expected {photo.width} x {photo.height} as the image has, "
                f"got {label_map.width} x {label_map.height}",
            )
    return images


def _count(labels: dict[int, int], value: Value) -> None:
    for label in value if isinstance(value, tuple) else (value,):
        if isinstance(label, int):
            labels[label] = labels.get(label, 0) + 1


def encode_values(columns: Sequence[Column], values: Sequence[Value]) -> dict[str, Any]:
    """An entry's values as features: texts as UTF-8, floats as floats, missing ones left out."""
    encode: dict[str, Callable[[Any], Any]] = {"string": _text, "float": float}
    features: dict[str, Any] = {}
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, tuple):
            features[column.name] = tuple(map(encode.get(column.kind, int), value))
        elif value is not None:
            features[column.name] = encode.get(column.kind, int)(value)
    return features


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


_Read = tuple[Entry, list[bytes] | RejectedInputError]


def _read_ahead(entries: Sequence[Entry], base: str) -> Iterator[_Read]:
    """Entries in order, some groups of them read by threads before they are asked for."""
    threads, group_files = _REMOTE if is_remote(base) else _LOCAL
    if entries and entries[0].blobs[0].row is not None:  # a thread holds a group of rows
        threads, group_files = _TABLE
    readers = threading.local()

    def read_group(group: Sequence[Entry]) -> list[_Read]:
        if not hasattr(readers, "own"):
            readers.own = BlobReader(base)
        return [(entry, _read(readers.own, entry)) for entry in group]

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        pending: collections.deque[concurrent.futures.Future[list[_Read]]] = collections.deque()
        for group in _groups(entries, group_files):
            pending.append(pool.submit(read_group, group))
            if len(pending) > threads:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _groups(entries: Sequence[Entry], group_files: int) -> Iterator[Sequence[Entry]]:
    start = group_bytes = 0
    for stop, entry in enumerate(entries):
        size = sum(blob.size for blob in entry.blobs)
        if stop > start and (group_bytes + size > _GROUP_BYTES or stop - start >= group_files):
            yield entries[start:stop]
            start, group_bytes = stop, 0
        group_bytes += size
    if start < len(entries):
        yield entries[start:]


def _read(reader: BlobReader, entry: Entry) -> list[bytes] | RejectedInputError:
    try:
        return [reader.read(blob) for blob in entry.blobs]
    except RejectedInputError as error:
        return error
