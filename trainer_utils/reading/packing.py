"""Read packs of documents: look them up in an index, cut them out of records, concatenate them.

sources = packed_sources(sources, options)        # their ranges now count packs
packs = Packs(sources, options, order.ranges)
packs.decode(packs.read(positions), [8])          # [{'tokens': (8, 4096) int32, …}]
"""

import dataclasses
import hashlib
import itertools
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.selection import Source, merged_features
from trainer_utils.format import ConfigError, Feature
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.slices import FileRange, RecordPositions
from trainer_utils.order.packing import MAX_TOKEN, PACK_FEATURES, PackIndex, PackOptions, Pieces
from trainer_utils.reading.elements import ArraySpec, splits_of
from trainer_utils.reading.record_reader import RecordReader, Rows
from trainer_utils.storage import exists, join, read_bytes, write_atomically
from trainer_utils.storage.cache_folder import own_folder

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


_MASK = "loss_mask"  # a chat's feature: 1 for tokens that the assistant wrote
_SCAN_BYTES, _SCAN_ROWS = 16 << 20, 1 << 16  # limits of the records scanned at once
_ITEM_BYTES = 4  # bytes of a token in a batch, an int32

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedSource(Source):
    """A source whose `ranges` count packs of the records of another source, `records`."""

    records: Source
    packs: PackIndex

    @property
    def mean_bytes(self) -> float:
        """Bytes of a pack in memory."""
        return float(self.packs.options.length * _ITEM_BYTES)


def packed_sources(sources: Sequence[Source], options: "InputOptions") -> list[Source]:
    """Return sources of packs as `options.pack` asks; without it, or if packed, the same sources.

    One pass over the dataset finds the lengths of all documents. They are kept in the cache folder
    for the next time, for any packing.

    Raises:
        ConfigError: the feature holds no tokens.
    """
    pack = options.pack
    if pack is None:
        return list(sources)
    for source in sources:
        if pack.feature not in (there := source.dataset.features):
            rule = f"a feature of tokens, of {', '.join(there) or 'none that have values'}"
            cure = f"PackOptions(feature=…) says which.{did_you_mean(pack.feature, there)}"
            raise ConfigError.of("pack", pack.feature, allowed=rule, advice=cure)
    feature = merged_features(sources, pack.feature, ())[pack.feature]
    _check_tokens(feature, pack)
    made: list[Source] = []
    for source in sources:
        if not isinstance(source, PackedSource):
            index = PackIndex(_lengths(source, feature, options), pack, source.ranges)
            how = f"{pack.strategy} {pack.length} {pack.eos} {pack.feature}"
            path = f"{source.dataset.uri}: packs of {source.split} ({how})"
            ranges = [FileRange(path, 0, index.num_packs)]
            known = {
                field.name: getattr(source, field.name) for field in dataclasses.fields(Source)
            }
            source = PackedSource(**{**known, "ranges": ranges}, records=source, packs=index)
        made.append(source)
    return made


def _check_tokens(feature: Feature, pack: PackOptions) -> None:
    """Raise a ConfigError if a feature is no list of tokens, or `eos` is not in its vocabulary."""
    is_list = feature.type == "int" and not feature.is_sequence and len(feature.shape) <= 1
    if not (is_list or feature.tokens):
        kinds = {"float": "numbers with a fraction", "string": "texts or bytes"}
        kind = kinds.get(feature.type, f"integers of shape {feature.shape}")
        if feature.tensor is not None:
            kind = "serialized tensors: write them as lists, tokens.tolist()"
        rule = "a feature of tokens, as TextExampleGen(tokenizer=…) writes it, or of flat lists of "
        raise ConfigError.of("pack", pack.feature, allowed=f"{rule}integers, not of {kind}")
    size = feature.tokens.vocabulary_size if feature.tokens else None
    if pack.eos is not None and size is not None and pack.eos >= size:
        raise ConfigError.of("eos", pack.eos, allowed=f"a token of the tokenizer, below {size}")


def _lengths(source: Source, feature: Feature, options: "InputOptions") -> npt.NDArray[np.uint32]:
    """Return the number of tokens of each document, `(records,)`, from the cache or the records."""
    from trainer_utils.options import CacheOptions  # options imports this package

    assert options.pack is not None
    name = options.pack.feature
    if source.dataset.manifest is None:  # without one, changes go unnoticed
        return _scan(source, feature, name, options)
    given = options.cache.folder if isinstance(options.cache, CacheOptions) else None
    folder = own_folder("lengths", given=given)
    known = [source.dataset.digest, source.split, name]
    path = join(folder, hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest())
    data = read_bytes(path) if exists(path) else b""
    size = _ITEM_BYTES * source.num_records
    if len(data) == size + 4 and zlib.crc32(data[:size]) == int.from_bytes(data[size:], "little"):
        return np.frombuffer(data, "<u4", source.num_records)
    found = _scan(source, feature, name, options)
    data = found.astype("<u4").tobytes()
    with write_atomically(path, temporary_folder=folder) as stream:
        stream.write(data + zlib.crc32(data).to_bytes(4, "little"))
    return found


def _scan(
    source: Source, feature: Feature, name: str, options: "InputOptions"
) -> npt.NDArray[np.uint32]:
    reader = RecordReader([source], options, source.ranges)
    lengths = np.zeros(source.num_records, np.uint32)
    step = max(1, min(_SCAN_ROWS, int(_SCAN_BYTES / max(source.mean_bytes, 1))))
    for begin in range(0, len(lengths), step):
        stop = min(begin + step, len(lengths))
        lengths[begin:stop] = _documents(reader.read(np.arange(begin, stop)), name, feature)[0]
    return lengths


def _documents(rows: Rows, name: str, feature: Feature) -> tuple[Numbers, Array]:
    """Return the number of tokens of each record, and all tokens concatenated."""
    column = rows.parse([name], views=[name])[name]
    if column.kind not in ("", feature.type):
        kind = f"feature {name!r} of {feature.type} values as the dataset says"
        raise rows.error(0, expected=kind, got=column.kind)
    lengths, tokens = column.counts, column.values
    if feature.tokens is not None:
        lengths, tokens = rows.documents(name, column, feature.tokens)
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() <= MAX_TOKEN:
        place = int(((tokens < 0) | (tokens > MAX_TOKEN)).argmax())
        row = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
        rule = f"feature {name!r} of tokens from 0 to {MAX_TOKEN:,}"
        raise rows.error(row, expected=rule, got=str(tokens[place]))
    return lengths, tokens


def _has_masks(sources: Sequence[Source]) -> bool:
    """Return whether tokens have a mask, which the datasets must agree on.

    Raises:
        ConfigError: some datasets have one and others do not.
    """
    have = [_MASK in source.dataset.features for source in sources]
    if any(have) and not all(have):
        lacking = sources[have.index(False)].dataset.uri
        rule = f"datasets that all have the feature {_MASK!r}, or none; {lacking} has none"
        raise ConfigError.of("pack", "tokens", allowed=rule)
    return any(have)


class PackRows(NamedTuple):
    """The documents and pieces of some packs.

    Attributes:
        rows: the documents, each once.
        places: `(pieces,) int64`, the document of each piece.
        lengths: `(documents,) int64`, the number of tokens of each, from the index.
        pieces: the pieces of the packs, row by row.
        num_packs: the number of packs.
    """

    rows: Rows
    places: Numbers
    lengths: Numbers
    pieces: Pieces
    num_packs: int


class Packs:
    """Reader and decoder of packs.

    It reads documents with the interface of `RecordReader`, with positions of packs in `ranges`. It
    makes arrays with the interface of `FeatureArrays`.

    Args:
        sources: the sources, as returned by `packed_sources`.
        options: the settings of the input.
        ranges: the ranges of packs to read.
    """

    is_random = False
    images: Sequence[str] = ()

    def __init__(
        self, sources: Sequence[Source], options: "InputOptions", ranges: Sequence[FileRange]
    ) -> None:
        assert options.pack is not None
        self._pack = options.pack
        self._feature = merged_features(sources, self._pack.feature, ())[self._pack.feature]
        dtypes = {name: "int32" for name in PACK_FEATURES} | {"loss_mask": "float32"}
        shape = (self._pack.length,)
        self.structure = {name: ArraySpec(shape, dtype) for name, dtype in dtypes.items()}
        self._has_mask = self._pack.feature == "tokens" and _has_masks(sources)
        own = [source for source in sources if isinstance(source, PackedSource)]
        self._packs = [source.packs for source in own]
        records = [source.records for source in own]
        inner = [part for source in records for part in source.ranges]
        self._reader = RecordReader(records, options, inner)
        self.unreadable, self.reads_ahead = self._reader.unreadable, self._reader.reads_ahead
        self._firsts = np.cumsum([0, *(len(index.lengths) for index in self._packs)])
        self._positions = RecordPositions(ranges)
        numbers = {part.path: n for n, source in enumerate(own) for part in source.ranges}
        self._sources = np.array([numbers[part.path] for part in ranges], np.int64)

    def read(self, positions: Numbers) -> PackRows:
        """Read the documents of the packs at some positions."""
        pieces, lengths = self._pieces(positions)
        records, first, places = np.unique(pieces.records, return_index=True, return_inverse=True)
        rows = self._reader.read(records)
        return PackRows(rows, places, lengths[first], pieces, len(positions))

    def read_ahead(self, positions: Numbers) -> None:
        """Start reading the documents of packs that are needed soon."""
        self._reader.read_ahead(np.unique(self._pieces(positions)[0].records))

    def leave_out(self, error: Exception) -> None:
        """Raise the error, since no other document can replace one in a pack."""
        raise error

    def _pieces(self, positions: Numbers) -> tuple[Pieces, Numbers]:
        """Return the pieces of packs, with records numbered over all sources, and their lengths."""
        ranges, packs = self._positions.places_of(positions)
        sources = self._sources[ranges]
        parts, lengths = [], []
        for number in np.unique(sources).tolist():
            rows = np.flatnonzero(sources == number)
            found = self._packs[number].pieces(packs[rows])
            lengths.append(self._packs[number].lengths[found.records].astype(np.int64))
            records = found.records + self._firsts[number]
            parts.append(found._replace(rows=rows[found.rows], records=records))
        pieces = Pieces(*map(np.concatenate, zip(*parts, strict=True)))
        order = np.argsort(pieces.rows, kind="stable")
        return Pieces(*(one[order] for one in pieces)), np.concatenate(lengths)[order]

    def decode(
        self, rows: PackRows, sizes: Sequence[int] | None, keys: None = None
    ) -> list[dict[str, Array]]:
        """Return one dict of arrays per batch, or per pack.

        Args:
            rows: the documents and pieces, as returned by `read`.
            sizes: the number of packs of each batch, or None for single packs.
            keys: unused, since packs are never random.
        """
        arrays = self._arrays(rows)
        if sizes is None:
            return [{name: own[n] for name, own in arrays.items()} for n in range(rows.num_packs)]
        parts = itertools.pairwise(itertools.accumulate(sizes, initial=0))
        return [{name: own[a:b] for name, own in arrays.items()} for a, b in parts]

    def _arrays(self, rows: PackRows) -> dict[str, Array]:
        tokens, ends = self._tokens(rows)
        mask = self._mask(rows, ends) if self._has_mask else None
        arrays = {
            name: np.zeros((rows.num_packs, *spec.shape), spec.dtype)  # type: ignore[arg-type]
            for name, spec in self.structure.items()
        }
        flat = [arrays[name].reshape(-1) for name in PACK_FEATURES]
        places = np.arange(self._pack.length, dtype=np.int32)
        begins = (ends - self._sizes(rows))[rows.places] + rows.pieces.offsets
        pieces = zip(
            *(one.tolist() for one in (rows.pieces.rows, rows.pieces.lengths, begins)),
            ends[rows.places].tolist(),
            strict=True,
        )
        before, start, number = -1, 0, 0
        for row, count, begin, end in pieces:
            if row != before:
                before, start, number = row, row * self._pack.length, 0
            number += 1
            stop = start + count
            # The target of a piece's last token is in the document, but not in the pack.
            followed = min(count, end - begin - 1)
            flat[0][start:stop] = tokens[begin : begin + count]
            flat[1][start : start + followed] = tokens[begin + 1 : begin + 1 + followed]
            flat[2][start:stop] = number
            flat[3][start:stop] = places[:count]
            weights = 1 if mask is None else mask[begin + 1 : begin + 1 + followed]
            flat[4][start : start + followed] = weights
            start = stop
        return arrays

    def _mask(self, rows: PackRows, ends: Numbers) -> Array:
        """Return each token's weight in the loss; an end token has that of the token before it."""
        column = rows.rows.parse([_MASK], views=[_MASK])[_MASK]
        if (column.counts != rows.lengths).any():
            row = int((column.counts != rows.lengths).argmax())
            raise rows.rows.error(
                row,
                expected=f"{rows.lengths[row]} values of feature {_MASK!r}, one for each token",
                got=str(column.counts[row]),
            )
        mask = np.asarray(column.values, np.float32)
        if self._pack.eos is None:
            return mask
        stops = np.cumsum(rows.lengths)
        last = np.append(mask, 0)[np.maximum(stops - 1, 0)] * (rows.lengths > 0)
        return np.insert(mask, stops, last)

    def _sizes(self, rows: PackRows) -> Numbers:
        return rows.lengths + (self._pack.eos is not None)

    def _tokens(self, rows: PackRows) -> tuple[Array, Numbers]:
        """Return the tokens of all documents, concatenated, and the end of each document."""
        lengths, tokens = _documents(rows.rows, self._pack.feature, self._feature)
        if (lengths != rows.lengths).any():
            row = int((lengths != rows.lengths).argmax())
            raise rows.rows.error(
                row,
                expected=f"{rows.lengths[row]} tokens, as when the packs were made",
                got=str(lengths[row]),
                advice="The dataset has changed since it was opened. Open it again.",
            )
        if self._pack.eos is not None:
            tokens = np.insert(tokens.astype(np.int32), np.cumsum(lengths), self._pack.eos)
        return tokens, splits_of(self._sizes(rows))[1:]
