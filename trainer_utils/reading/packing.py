"""Read packs of documents: look them up in an index, cut them out of records, concatenate them.

sources = packed_sources(sources, options)        # their ranges now count packs
packs = Packs(sources, options, order.ranges)
packs.decode(packs.read(positions), [8])          # [{'tokens': (8, 4096) int32, …}]
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.dataset.selection import Source, mean_bytes, merged_features
from trainer_utils.format import Feature
from trainer_utils.format.slices import FileRange, RecordPositions
from trainer_utils.format.varints import VarintList
from trainer_utils.order.packing import MAX_TOKEN, PACK_FEATURES, PackIndex, PackOptions, Pieces
from trainer_utils.reading.document_cache import Document, DocumentCache
from trainer_utils.reading.elements import ArraySpec, Batch
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.record_reader import RecordReader, Rows
from trainer_utils.runtime.machine import free_memory
from trainer_utils.storage.kept_files import KeptFiles

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions


_MASK = "loss_mask"  # a chat's feature: 1 for tokens that the assistant wrote
_SCAN_BYTES, _SCAN_ROWS = 16 << 20, 1 << 16  # limits of the records scanned at once
_KEPT_BYTES = 256 << 20  # of documents: as many as a block of the default shuffle needs
_READ_TOKENS = 1 << 21  # of documents that are read at a time
_MIN_LONG = 8192  # tokens; shorter documents are decoded together, which is faster
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
    packed: list[Source] = []
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
        packed.append(source)
    return packed


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
    assert options.pack is not None
    name = options.pack.feature
    if source.dataset.manifest is None:  # without one, changes go unnoticed
        return _scan(source, feature, name, options)
    kept = KeptFiles("lengths", options.cache_folder)
    key: tuple[str, ...] = source.dataset.digest, source.split, name
    if source.where is not None:
        key = *key, source.where
    data = kept.read_checked(key, num_bytes=_ITEM_BYTES * source.num_records)
    if data is not None:
        return np.frombuffer(data, "<u4")
    lengths = _scan(source, feature, name, options)
    kept.keep_checked(key, lengths.astype("<u4").tobytes())
    return lengths


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


def pack_structure(pack: PackOptions) -> dict[str, ArraySpec]:
    """Return shape and dtype of each array of one pack."""
    dtypes = {name: "int32" for name in PACK_FEATURES} | {"loss_mask": "float32"}
    return {name: ArraySpec((pack.length,), dtype) for name, dtype in dtypes.items()}


class PackRows(NamedTuple):
    """The pieces of some packs, and the documents that they are cut out of.

    Attributes:
        records: `(documents,) int64`, ascending: the record of each document, over all sources.
        lengths: `(documents,) int64`, the number of tokens of each, from the index.
        places: `(pieces,) int64`, the document of each piece.
        pieces: the pieces of the packs, row by row.
        num_packs: the number of packs.
    """

    records: Numbers
    lengths: Numbers
    places: Numbers
    pieces: Pieces
    num_packs: int


class Packs:
    """Reader and decoder of packs.

    Positions count packs in `ranges`.

    Args:
        sources: the sources, as returned by `packed_sources`.
        options: the settings of the input.
        ranges: the ranges of packs to read.
        counters: the counters of the input's work.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: "InputOptions",
        ranges: Sequence[FileRange],
        counters: StageCounters | None = None,
    ) -> None:
        self._counters = counters or StageCounters()
        assert options.pack is not None
        self._pack = options.pack
        self._feature = merged_features(sources, self._pack.feature, ())[self._pack.feature]
        self._structure = pack_structure(self._pack)
        self._has_mask = self._pack.feature == "tokens" and _has_masks(sources)
        packed = [source for source in sources if isinstance(source, PackedSource)]
        self._packs = [source.packs for source in packed]
        records = [source.records for source in packed]
        inner = [part for source in records for part in source.ranges]
        self._reader = RecordReader(records, options, inner, self._counters)
        self.unreadable, self.reads_ahead = self._reader.unreadable, self._reader.reads_ahead
        self.reads_in_order = self._reader.reads_in_order
        self._cache = DocumentCache(min(_KEPT_BYTES, free_memory() // 4))
        num_pieces = sum(index.num_pieces for index in self._packs)
        num_packs = sum(index.num_packs for index in self._packs)
        # Bytes of documents to read for a pack, if none is kept.
        self.row_bytes = mean_bytes(records) * num_pieces / max(num_packs, 1)
        self._firsts = np.cumsum([0, *(len(index.lengths) for index in self._packs)])
        self._positions = RecordPositions(ranges)
        numbers = {part.path: n for n, source in enumerate(packed) for part in source.ranges}
        self._sources = np.array([numbers[part.path] for part in ranges], np.int64)

    def read(self, positions: Numbers) -> PackRows:
        """Return the pieces of the packs at some positions; `decode` reads the documents."""
        pieces, lengths = self._pieces(positions)
        records, first, places = np.unique(pieces.records, return_index=True, return_inverse=True)
        return PackRows(records, lengths[first], places, pieces, len(positions))

    def read_ahead(self, positions: Numbers) -> None:
        """Start reading the documents of packs that are needed soon."""
        records = np.unique(self._pieces(positions)[0].records)
        kept = self._cache.get(records.tolist())
        missing = [record for record in records.tolist() if record not in kept]
        self._reader.read_ahead(np.array(missing, np.int64))

    def _pieces(self, positions: Numbers) -> tuple[Pieces, Numbers]:
        """Return the pieces of packs, with records numbered over all sources, and their lengths."""
        ranges, packs = self._positions.places_of(positions)
        sources = self._sources[ranges]
        parts, lengths = [], []
        for number in np.unique(sources).tolist():
            rows = np.flatnonzero(sources == number)
            part = self._packs[number].pieces(packs[rows])
            lengths.append(self._packs[number].lengths[part.records].astype(np.int64))
            records = part.records + self._firsts[number]
            parts.append(part._replace(rows=rows[part.rows], records=records))
        pieces = Pieces(*map(np.concatenate, zip(*parts, strict=True)))
        order = np.argsort(pieces.rows, kind="stable")
        return Pieces(*(array[order] for array in pieces)), np.concatenate(lengths)[order]

    def decode(self, rows: PackRows, sizes: Sequence[int] | None) -> list[Batch]:
        """Return one dict of arrays per batch, or per pack.

        Args:
            rows: the documents and pieces, as returned by `read`.
            sizes: the number of packs of each batch, or None for single packs.
        """
        began, spent = perf_counter_ns(), {"read": 0, "parse": 0}
        arrays = self._arrays(rows, spent)
        decode = perf_counter_ns() - began - sum(spent.values())
        self._counters.add(parse=spent["parse"], decode=decode)  # the reader counts for itself
        if sizes is None:
            return [
                {name: array[n] for name, array in arrays.items()} for n in range(rows.num_packs)
            ]
        parts = itertools.pairwise(itertools.accumulate(sizes, initial=0))
        return [{name: array[a:b] for name, array in arrays.items()} for a, b in parts]

    def _arrays(self, rows: PackRows, spent: dict[str, int]) -> dict[str, Array]:
        arrays = {
            name: np.zeros((rows.num_packs, *spec.shape), spec.dtype)  # type: ignore[arg-type]
            for name, spec in self._structure.items()
        }
        copy_piece = self._piece_copier(rows, [arrays[n].reshape(-1) for n in PACK_FEATURES])
        order = np.argsort(rows.places, kind="stable")
        ends = np.cumsum(np.bincount(rows.places, minlength=len(rows.records))).tolist()
        pieces_of = [order[a:b].tolist() for a, b in itertools.pairwise([0, *ends])]
        for place, document in self._documents(rows, spent):
            for piece in pieces_of[place]:
                copy_piece(piece, document)
        return arrays

    def _piece_copier(
        self, rows: PackRows, flat: Sequence[Array]
    ) -> Callable[[int, Document], None]:
        """Return a function that copies a piece of a document to its place in a batch.

        Args:
            rows: the pieces.
            flat: the arrays of a batch, flattened, in the order of `PACK_FEATURES`.
        """
        length = self._pack.length
        tokens, targets, segments, positions, weights = flat
        is_new = np.diff(rows.pieces.rows, prepend=-1) > 0
        firsts = np.flatnonzero(is_new)[np.cumsum(is_new) - 1]  # the first piece of each one's row
        before = np.cumsum(rows.pieces.lengths) - rows.pieces.lengths
        starts = (rows.pieces.rows * length + before - before[firsts]).tolist()
        numbers = (np.arange(len(firsts)) - firsts + 1).tolist()
        counts, offsets = rows.pieces.lengths.tolist(), rows.pieces.offsets.tolist()
        places = np.arange(length, dtype=np.int32)

        def copy(piece: int, document: Document) -> None:
            start, begin, count = starts[piece], offsets[piece], counts[piece]
            stop = start + count
            # The target of a piece's last token is in the document, but not in the pack.
            part, mask = document.part(begin, begin + count + 1)
            followed = len(part) - 1
            tokens[start:stop] = part[:count]
            targets[start : start + followed] = part[1:]
            segments[start:stop] = numbers[piece]
            positions[start:stop] = places[:count]
            weights[start : start + followed] = 1 if mask is None else mask[1:]

        return copy

    def _documents(self, rows: PackRows, spent: dict[str, int]) -> Iterator[tuple[int, Document]]:
        """Yield the place of each document in `rows`, and the document, kept or read.

        A limited number of tokens is read at a time. The nanoseconds of reading and parsing are
        added to `spent`.
        """
        kept = self._cache.get(rows.records.tolist())
        missing = []
        for place, record in enumerate(rows.records.tolist()):
            if record in kept:
                yield place, kept[record]
            else:
                missing.append(place)
        sizes = self._sizes(rows.lengths)
        group = (np.cumsum(sizes[missing]) - sizes[missing]) // _READ_TOKENS
        for _, numbers in itertools.groupby(range(len(missing)), key=group.tolist().__getitem__):
            places = np.array([missing[number] for number in numbers])
            began = perf_counter_ns()
            read = self._reader.read(rows.records[places])
            has_read = perf_counter_ns()
            documents = self._parsed(read, rows.lengths[places])
            spent["read"] += has_read - began
            spent["parse"] += perf_counter_ns() - has_read
            for place, document in zip(places.tolist(), documents, strict=True):
                yield place, document
                if sizes[place] > self._pack.length:  # other packs need it soon
                    self._cache.keep(int(rows.records[place]), document)

    def _parsed(self, rows: Rows, expected: Numbers) -> list[Document]:
        """Return documents. Of long ones, only the parts that packs need will be decoded.

        Args:
            rows: the records of the documents.
            expected: `(documents,) int64`, the number of tokens of each, from the index.
        """
        is_long = expected > max(self._pack.length, _MIN_LONG)
        if not is_long.any():
            return self._decoded(rows, expected)
        documents: dict[int, Document] = {}
        for chosen, parse in (is_long, self._encoded), (~is_long, self._decoded):
            places = np.flatnonzero(chosen)
            if len(places):
                parsed = parse(rows.take(places), expected[places])
                documents |= zip(places.tolist(), parsed, strict=True)
        return [documents[place] for place in range(len(expected))]

    def _encoded(self, rows: Rows, expected: Numbers) -> list[Document]:
        """Return encoded documents, or decoded ones if their encoding is unusual."""
        tokens = self._encoded_tokens(rows, expected)
        masks = self._encoded_masks(rows, expected) if self._has_mask else [None] * len(rows)
        if tokens is None or masks is None:  # unusual, or wrong, which decoding reports
            return self._decoded(rows, expected)
        return [Document(*pair, self._pack.eos) for pair in zip(tokens, masks, strict=True)]

    def _encoded_tokens(self, rows: Rows, expected: Numbers) -> Sequence[Array | VarintList] | None:
        """Return the tokens of each record as stored, or None if records must be decoded."""
        name, spec = self._pack.feature, self._feature.tokens
        if spec is not None:
            column = rows.parse([name], views=[name])[name]
            lengths, values = rows.token_bytes(name, column, spec)
            self._check_lengths(rows, lengths, expected)
            arrays = [spec.decode(value) for value in values]
            return arrays if max(array.max() for array in arrays) <= MAX_TOKEN else None
        lists = rows.find_lists(name)
        if lists is None or lists.kind != "int":
            return None
        data = np.frombuffer(rows.data, np.uint8)
        bounds = zip(lists.begins.tolist(), lists.ends.tolist(), strict=True)
        try:
            columns = [VarintList(data[begin:end]) for begin, end in bounds]
        except ValueError:
            return None
        self._check_lengths(rows, np.array([*map(len, columns)]), expected)
        # Numbers of up to four bytes are below 2 ** 28; negative ones have ten.
        return None if any(column.has_longer_than(4) for column in columns) else columns

    def _encoded_masks(self, rows: Rows, expected: Numbers) -> list[Array] | None:
        lists = rows.find_lists(_MASK)
        if (
            lists is None
            or lists.kind != "float"
            or (lists.ends - lists.begins != 4 * expected).any()
        ):
            return None
        bounds = zip(lists.begins.tolist(), expected.tolist(), strict=True)
        return [np.frombuffer(rows.data, "<f4", count, begin) for begin, count in bounds]

    def _mask(self, rows: Rows, lengths: Numbers) -> Array:
        """Return each token's weight in the loss; an end token has that of the token before it."""
        column = rows.parse([_MASK], views=[_MASK])[_MASK]
        if (column.counts != lengths).any():
            row = int((column.counts != lengths).argmax())
            raise rows.error(
                row,
                expected=f"{lengths[row]} values of feature {_MASK!r}, one for each token",
                got=str(column.counts[row]),
            )
        mask = np.asarray(column.values, np.float32)
        if self._pack.eos is None:
            return mask
        stops = np.cumsum(lengths)
        last = np.append(mask, 0)[np.maximum(stops - 1, 0)] * (lengths > 0)
        return np.insert(mask, stops, last)

    def _sizes(self, lengths: Numbers) -> Numbers:
        return lengths + (self._pack.eos is not None)

    def _decoded(self, rows: Rows, expected: Numbers) -> list[Document]:
        """Return decoded documents.

        Args:
            rows: the records of the documents.
            expected: `(documents,) int64`, the number of tokens of each, from the index.
        """
        lengths, tokens = _documents(rows, self._pack.feature, self._feature)
        self._check_lengths(rows, lengths, expected)
        if self._pack.eos is not None:
            tokens = np.insert(tokens.astype(np.int32), np.cumsum(lengths), self._pack.eos)
        mask = self._mask(rows, lengths) if self._has_mask else None
        ends = np.cumsum(self._sizes(lengths)).tolist()
        return [
            Document(tokens[begin:end], None if mask is None else mask[begin:end])
            for begin, end in itertools.pairwise([0, *ends])
        ]

    def _check_lengths(self, rows: Rows, lengths: Numbers, expected: Numbers) -> None:
        if (lengths != expected).any():
            row = int((lengths != expected).argmax())
            raise rows.error(
                row,
                expected=f"{expected[row]} tokens, as when the packs were made",
                got=str(lengths[row]),
                advice="The dataset has changed since it was opened. Open it again.",
            )
