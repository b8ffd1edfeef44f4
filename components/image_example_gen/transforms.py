"""Writes shards of images: one Beam element a shard.

pipeline | WriteImageShards(tasks, base="photos/", uri=uri, gzip=False)
"""

import collections
import concurrent.futures
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import tensorflow as tf

from components.common.files import join, make_folder, read_bytes_of_size, write_atomically
from components.common.rejects import Reject, RejectedInputError
from components.common.summaries import working_folder, write_summary
from components.image_example_gen.images import ImageHeader, inspect_image
from components.image_example_gen.plan import ShardTask
from trainer_utils.format import ShardName, ShardWriter, encode_example, keyed_hash
from trainer_utils.format.naming import split_folder

__all__ = ["ShardSummary", "WriteImageShards", "encode_image_example", "write_image_shard"]

_MAX_FILE_BYTES = 1 << 30  # 1 GiB: an Example, being one protocol buffer, ends at 2 GiB
# Files are read ahead in groups, since handing a thread one small file costs as much as reading
# it. Four groups in flight hide an object store's latency, and hold at most some 32 MiB.
_GROUP_BYTES = 8 << 20
_GROUP_FILES = 64
_GROUPS_AHEAD = 3


@dataclasses.dataclass
class ShardSummary:
    """What became of one task.

    Args:
        split, shard_index: which shard.
        records, bytes, crc32c: as in the manifest.
        labels: examples by label id.
        image_shape: height, width and channels of the shard's first image; empty without one.
        one_size: whether all its images have that height and width.
        channels: the numbers of channels that occur.
        content: an order-free sum over all inputs, as 32 hexadecimal digits.
        rejects: what was left out.
    """

    split: str
    shard_index: int
    records: int = 0
    bytes: int = 0
    crc32c: int = 0
    labels: dict[int, int] = dataclasses.field(default_factory=dict)
    image_shape: list[int] = dataclasses.field(default_factory=list)
    one_size: bool = True
    channels: list[int] = dataclasses.field(default_factory=list)
    content: str = ""
    rejects: list[Reject] = dataclasses.field(default_factory=list)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ShardSummary":
        """From what `dataclasses.asdict` and JSON made of one."""
        labels = {int(label): count for label, count in value["labels"].items()}
        rejects = [Reject(**reject) for reject in value["rejects"]]
        return cls(**{**value, "labels": labels, "rejects": rejects})


class WriteImageShards(beam.PTransform):
    """Writes every shard of a plan, with a summary beside each.

    Args:
        tasks: the shards.
        base: the folder that filenames are relative to.
        uri: of the dataset.
        gzip: whether to compress.
    """

    def __init__(self, tasks: Sequence[ShardTask], *, base: str, uri: str, gzip: bool) -> None:
        super().__init__()
        self._tasks = tasks
        self._fn = _WriteImageShardFn(base, uri, gzip)

    def expand(self, begin: Any) -> Any:
        """The shards and their summaries are side effects; the output holds nothing."""
        return (
            begin
            | "CreateTasks" >> beam.Create(self._tasks)
            | "WriteShards" >> beam.ParDo(self._fn)
        )


@beam.typehints.with_input_types(ShardTask)
class _WriteImageShardFn(beam.DoFn):
    def __init__(self, base: str, uri: str, gzip: bool) -> None:
        self._base, self._uri, self._gzip = base, uri, gzip
        self._records = beam.metrics.Metrics.counter("tfx_shards", "records_written")
        self._rejects = beam.metrics.Metrics.counter("tfx_shards", "inputs_rejected")

    def process(self, task: ShardTask) -> None:
        summary = write_image_shard(task, base=self._base, uri=self._uri, gzip=self._gzip)
        self._records.inc(summary.records)
        self._rejects.inc(len(summary.rejects))
        name = f"{task.split}-{task.shard_index:05d}"
        write_summary(working_folder(self._uri), name, dataclasses.asdict(summary))


def write_image_shard(task: ShardTask, *, base: str, uri: str, gzip: bool) -> ShardSummary:
    """Reads a task's images and writes its shard under the shard's final name.

    A bad image becomes a reject in the summary; failing to write raises.
    """
    summary = ShardSummary(task.split, task.shard_index)
    channels: set[int] = set()
    labels: collections.Counter[int] = collections.Counter()
    content = 0
    name = ShardName(
        split=task.split, shard_index=task.shard_index, num_shards=task.num_shards, gzip=gzip
    )
    temporary_folder = working_folder(uri)
    make_folder(temporary_folder)
    make_folder(join(uri, split_folder(task.split)))
    with write_atomically(join(uri, name.path), temporary_folder=temporary_folder) as stream:
        writer = ShardWriter(stream, gzip=gzip)
        for filename, label, data in _read_ahead(task.entries, base):
            encoded_name = filename.encode("utf-8", "surrogateescape")
            try:
                if isinstance(data, RejectedInputError):
                    raise data
                header = inspect_image(data)
            except RejectedInputError as error:
                summary.rejects.append(Reject(task.split, filename, error.code, error.detail))
                fact = encoded_name + b"\0" + error.code.encode()
            else:
                crc = writer.write(encode_image_example(data, encoded_name, header, label))
                fact = encoded_name + b"\0%d\0%d" % (len(data), crc)
                shape = [header.height, header.width, header.channels]
                summary.image_shape = summary.image_shape or shape
                summary.one_size &= shape[:2] == summary.image_shape[:2]
                channels.add(header.channels)
                if label is not None:
                    labels[label] += 1
            content += keyed_hash(fact, seed=0, purpose="content")
        digest = writer.finish()
    summary.records, summary.bytes, summary.crc32c = digest.records, digest.bytes, digest.crc32c
    summary.labels, summary.channels = dict(labels), sorted(channels)
    summary.content = f"{content % 2**128:032x}"
    return summary


def encode_image_example(
    data: bytes, filename: bytes, header: ImageHeader, label: int | None
) -> list[bytes]:
    """One image as a serialized `tf.train.Example`, in parts to be joined.

    Args:
        data: the encoded image, kept byte for byte.
        filename: relative to the input base.
        header: its size.
        label: its class id, in [0, 2**63), or None for no such feature.
    """
    features: dict[str, bytes | int] = {
        "image": data,
        "filename": filename,
        "height": header.height,
        "width": header.width,
        "channels": header.channels,
    }
    if label is not None:
        features["label"] = label
    return encode_example(features)


_Entries = Sequence[tuple[str, int, int | None]]
_Read = tuple[str, int | None, bytes | RejectedInputError]


def _read_ahead(entries: _Entries, base: str) -> Iterator[_Read]:
    """Files in order, some groups of them read by threads before they are asked for."""
    with concurrent.futures.ThreadPoolExecutor(_GROUPS_AHEAD) as pool:
        pending: collections.deque[concurrent.futures.Future[list[_Read]]] = collections.deque()
        for group in _groups(entries):
            pending.append(pool.submit(_read_group, group, base))
            if len(pending) > _GROUPS_AHEAD:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _groups(entries: _Entries) -> Iterator[_Entries]:
    start = group_bytes = 0
    for stop, (_, size, _) in enumerate(entries):
        if stop > start and (group_bytes + size > _GROUP_BYTES or stop - start >= _GROUP_FILES):
            yield entries[start:stop]
            start, group_bytes = stop, 0
        group_bytes += size
    if start < len(entries):
        yield entries[start:]


def _read_group(entries: Iterable[tuple[str, int, int | None]], base: str) -> list[_Read]:
    return [
        (filename, label, _read_file(join(base, filename), size))
        for filename, size, label in entries
    ]


def _read_file(path: str, size: int) -> bytes | RejectedInputError:
    if size > _MAX_FILE_BYTES:
        return RejectedInputError(
            "TOO_LARGE", f"expected at most {_MAX_FILE_BYTES} bytes, got {size}"
        )
    try:
        return read_bytes_of_size(path, size)
    except (FileNotFoundError, tf.errors.NotFoundError):
        return RejectedInputError("VANISHED", "listed, but gone when it was to be read")
    except (OSError, tf.errors.OpError) as error:
        return RejectedInputError("UNREADABLE", getattr(error, "strerror", None) or str(error))
