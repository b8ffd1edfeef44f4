"""Infer the features of a large dataset without metadata from a sample of its records.

    features, sampled = features_of_sample(shards, versions, uri="/data/photos", folder=None)

The sample is a function of the number and sizes of the records, so that all processes infer the
same. Readers check every record against it, since other records may differ.
"""

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trainer_utils import storage
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset.compression import read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.dataset.record_scan import OffsetFolder, open_offsets
from trainer_utils.format import Feature, RecordBlock
from trainer_utils.format.datum import parse_features, render_features
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES, check_frames, unframe
from trainer_utils.storage.kept_files import KeptFiles

_logger = logging.getLogger(__name__)
WHOLE_BYTES = 64 << 20
"""Datasets up to this size are read as a whole, which takes less than a second."""

_SAMPLE_BYTES = 32 << 20
_MIN_PLACES, _MAX_PLACES = 16, 256  # in the dataset, at equal distances
_MAX_NEIGHBOURS = 16  # records at each place
_PACKED_PLACES, _PACKED_RECORDS = 16, 256  # gzip shards, and records at the begin of each
_RULES = 1  # increased if the same sample leads to other features


def inferred_features(facts: DatasetFacts, *, uri: str) -> Mapping[str, Feature]:
    """Return the features for some facts; log a warning for a feature of several kinds."""
    mixed = facts.settle_mixed()
    for name, kinds in mixed.items():
        counts = ", ".join(f"{kind} in {count:,} examples" for kind, count in kinds.items())
        _logger.warning(
            "%r: feature %r is %s. The first is used; for the other records, leave the feature "
            "out, features=[…], or replace the records, on_corrupt='skip'.",
            *(uri, name, counts),
        )
    return features_of_facts(facts)


def features_of_sample(
    shards: Sequence[ShardFile], versions: Sequence[str], *, uri: str, folder: str | None
) -> tuple[Mapping[str, Feature], int]:
    """Return the features of a sample, and its number of records; kept for the next time.

    Args:
        shards: the shards, with their numbers of records.
        versions: the version of each, as from `storage.file_version`.
        uri: the uri of the dataset, for messages.
        folder: the cache folder; None for the default.

    Raises:
        DatasetError: a record of the sample is damaged or is no example.
    """
    offsets = OffsetFolder.open(folder)
    key = _RULES, [(shard.path, version) for shard, version in zip(shards, versions, strict=True)]
    if offsets is not None and (kept := _kept(offsets.files, key)) is not None:
        return kept
    facts = DatasetFacts(takes_mixed=True)
    for shard, block in _sample(shards, versions, offsets):
        facts.add(block, path=shard.path)
    is_mixed = bool(facts.mixed)
    features = inferred_features(facts, uri=uri)
    if offsets is not None and not is_mixed:  # the warning about several kinds is for every run
        offsets.files.keep(key, f"{facts.records}\n{render_features(features)}".encode())
    return features, facts.records


def _kept(files: KeptFiles, key: object) -> tuple[Mapping[str, Feature], int] | None:
    """Return features that an earlier process inferred, or None without any."""
    path = files.find(key)
    if path is None:
        return None
    try:
        records, _, features = storage.read_text(path).partition("\n")
        return parse_features(features, path=path), int(records)
    except (DatasetError, OSError, ValueError):
        return None


def _sample(
    shards: Sequence[ShardFile], versions: Sequence[str], offsets: OffsetFolder | None
) -> Iterator[tuple[ShardFile, RecordBlock]]:
    """Yield verified records at equal distances, and the begins of some compressed shards."""
    packed = [shard for shard in shards if shard.is_gzip and shard.records]
    for shard in packed[:: -(-len(packed) // _PACKED_PLACES) or 1]:
        yield shard, _first_records(shard)
    plain = [pair for pair in zip(shards, versions, strict=True) if not pair[0].is_gzip]
    ends = np.cumsum([shard.num_records for shard, _ in plain])
    if not len(ends) or not ends[-1]:
        return
    mean = sum(shard.bytes for shard, _ in plain) / int(ends[-1])
    places = int(min(max(_SAMPLE_BYTES // mean, _MIN_PLACES), _MAX_PLACES))
    neighbours = int(min(_SAMPLE_BYTES // (mean * places), _MAX_NEIGHBOURS, ends[-1] // places))
    positions = np.unique(np.arange(places) * int(ends[-1]) // places)
    numbers = np.searchsorted(ends, positions, side="right")
    for number, group in itertools.groupby(
        zip(numbers.tolist(), positions.tolist(), strict=True), key=lambda pair: pair[0]
    ):
        shard, version = plain[number]
        read_offsets = open_offsets(shard, version, offsets)
        for _, position in group:
            first = position - (int(ends[number]) - shard.num_records)
            stop = min(first + max(neighbours, 1), shard.num_records)
            yield shard, _read_records(shard, first, read_offsets(first, stop))


def _first_records(shard: ShardFile) -> RecordBlock:
    """Return the first records of a compressed shard."""
    block = next(read_shard_blocks(shard.path, block_bytes=_SAMPLE_BYTES // _PACKED_PLACES))
    count = min(len(block), _PACKED_RECORDS)
    return dataclasses.replace(
        block,
        starts=block.starts[:count],
        lengths=block.lengths[:count],
        payload_crcs=block.payload_crcs[:count],
    )


def _read_records(shard: ShardFile, first: int, offsets: npt.NDArray[np.int64]) -> RecordBlock:
    """Return some records, verified, given the offsets of their frames and the end of the last."""
    begin = int(offsets[0])
    data = storage.read_range(shard.path, start=begin, stop=int(offsets[-1]))
    starts, stops = offsets[:-1] - begin, offsets[1:] - begin
    crcs, is_whole = check_frames(data, starts, stops)
    if not is_whole.all():
        bad = int(is_whole.argmin())
        frame = data[starts[bad] : stops[bad]]
        unframe(frame, path=shard.path, record=first + bad, offset=int(offsets[bad]))
    return RecordBlock(data, starts, stops - starts - RECORD_OVERHEAD_BYTES, crcs, begin)
