"""Process a piece of a table in two passes: inspect its rows, then encode them as framed examples.

The first pass does not know the other pieces. It keeps the source's values in an Arrow file, and
the types of columns are decided when all reports have arrived. The second pass writes runs for the
shuffles that order each split.

No Python object is created for a row, which takes a third of the time of tfx_bsl's encoder. The
bytes equal the output of `trainer_utils.format.encode_example`.
Source: `tensorflow/core/example/{example,feature}.proto`.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.row_split_files import read_splits
from components.example_gen.split_rules import EXCLUDED, Numbers
from components.inputs.input_table import Column, label_column
from components.shuffle.external import ExternalShuffle, read_batch, run_of, write_batches
from components.tables.column_roles import (
    MAYBE_SPLITS,
    SPLIT_NAMES,
    TextRules,
    label_ids,
    text_columns,
)
from components.tables.column_types import (
    LABEL_NAMES,
    ColumnFacts,
    as_strings,
    cast_column,
    column_facts,
    no_text,
    not_finite,
)
from components.tables.json_values import is_chat
from components.tables.pieces import BadRow, Piece, Rows, TableOptions, checked_texts
from components.tables.reading import PieceReader
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.format import Shard
from trainer_utils.format.example import varint
from trainer_utils.format.index import name_crc
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.format.tfrecord import frame_footers, frame_headers
from trainer_utils.storage.host_errors import is_host_error
from trainer_utils.storage.paths import encode_path, join

TOKENS = "tokens"
"""The feature that a tokenizer adds."""

LOSS_MASK = "loss_mask"
"""The feature with a value for each token of a chat: 1 if the assistant wrote it, otherwise 0."""

_ID_FEATURES = ("id", "record_id")  # lineage: the second one if the inputs already have the first
_BATCH_ROWS = 32 << 10  # larger batches leave the processor's cache
# Columns whose distinct values are reported: for possible splits only the first ones.
_OF_WORDS = (*LABEL_NAMES, *MAYBE_SPLITS, *SPLIT_NAMES)
_MAX_SPLIT_WORDS = 100
_RECORD, _DIGEST = "record", "digest"  # columns of the Arrow file; the source's have a prefix
_PREFIX = "column:"
_CHAT_TEXT, _CHAT_SPANS = "chat:text", "chat:spans"  # a chat as text, and the assistant's spans

_Arrays = Mapping[str, pa.Array]
# Field number << 3 | 2: all fields here are length-delimited.
_FIRST, _SECOND = b"\x0a", b"\x12"
_LIST_TAGS = {"string": b"\x0a", "float": b"\x12", "int": b"\x1a"}

_Sizes = npt.NDArray[np.int64]
_Octets = npt.NDArray[np.uint8]
_Message = tuple[list[Any], _Sizes]
"""Consecutive parts of each row, binary arrays or `(n, width)` bytes; and the total size."""


@dataclasses.dataclass
class PieceReport:
    """The result of inspecting one piece."""

    found: int  # number of rows, including bad and skipped ones
    kept: int  # number of rows that are left
    lines: int  # number of line ends, for line numbers in later pieces
    bad: list[BadRow]  # rejected rows
    skipped: list[int]  # numbers of the rows that are left out on purpose
    names: list[str] | None  # names of all rows found, if they have their own
    facts: dict[str, ColumnFacts]
    # Distinct values of columns that may be labels or splits, by column
    labels: dict[str, list[str]]
    sums: list[Any]  # see `Rows`
    chats: list[str] = dataclasses.field(default_factory=list)  # names of chat columns
    # Names of classes by column, if the file has them
    class_names: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def inspect_pieces(
    base: str,
    folder: str,
    options: TableOptions,
    rules: TextRules,
    numbered: Sequence[tuple[int, Piece]],
) -> list[PieceReport]:
    """Read pieces, normalise their text as the settings request, and store each in `folder`.

    Args:
        base: the input base.
        folder: the working folder.
        options: the settings of tables.
        rules: the rules of texts.
        numbered: the pieces with their numbers. Parts of one row group share one read of it.
    """
    reports = []
    with PieceReader(base, options) as reader:
        for number, piece in numbered:
            with _naming(piece.source):
                reports.append(_inspect_piece(reader, folder, options, rules, number, piece))
    return reports


@contextlib.contextmanager
def _naming(source: str) -> Iterator[None]:
    """Add the name of the file to errors from Arrow."""
    try:
        yield
    except pa.ArrowException as error:
        if is_host_error(error):
            raise
        advice = "Write fewer rows in a row group, or fewer values in a row."
        got = f"{type(error).__name__}: {error}"
        raise InputError.at(
            source, expected="rows that Arrow holds", got=got, advice=advice
        ) from error


def _inspect_piece(
    reader: PieceReader,
    folder: str,
    options: TableOptions,
    rules: TextRules,
    number: int,
    piece: Piece,
) -> PieceReport:
    """Read a piece, apply the rules of texts, and write its columns to the working folder."""
    rows = reader.read(piece)
    texts = text_columns(list(rows.columns), options.columns)
    of_words = [
        name
        for name in rows.columns
        if (kind := options.columns.get(name)) in ("label", "split")
        or (kind is None and (name.lower() in _OF_WORDS or name in rows.class_names))
    ]
    given = {*options.columns, *rows.class_names}
    maybe_splits = {name for name in of_words if name.lower() in MAYBE_SPLITS} - given
    for name in {*texts, *of_words}:
        if pa.types.is_binary(rows.columns[name].type):  # possible in Parquet files
            try:
                rows.columns[name] = rows.columns[name].cast(pa.string())
            except pa.ArrowInvalid:
                checked_texts(rows, names=[name])
    for name in texts:  # before they are converted to strings
        if (bad := not_finite(rows.columns[name], rows.records)) is not None:
            raise no_text(name, bad[1], f"{piece.source}, row {bad[0] + 1} of a piece")
    if options.tokenizer is not None:
        rows.chats = {*rows.chats, *_chats_in_texts(rows, {*options.as_json, *rows.as_json})}
    _check_text_rules(rules, [name for name in texts if name in rows.as_json])
    skipped = [*rows.skipped, *rules.apply(rows, texts)]
    of_chats = _render_chats(rows, texts, options.tokenizer)
    records, columns = rows.records, rows.columns
    arrays = {_RECORD: pa.array(records, pa.int64())}
    if rules.deduplicate:
        arrays[_DIGEST] = _digests_of_texts([columns[name] for name in texts], len(records))
    arrays |= of_chats
    arrays |= {_PREFIX + name: array for name, array in columns.items()}
    write_batches(_path(folder, number), folder, [pa.RecordBatch.from_pydict(arrays)])
    kinds = ("string", "text", "json", "label")
    said = {name for name, kind in options.columns.items() if kind in kinds}
    may_be_numbers = {*rows.texts}.difference(texts, said)
    return PieceReport(
        found=rows.found,
        kept=len(records),
        lines=rows.lines,
        bad=rows.bad,
        skipped=skipped,
        names=None if rows.names is None else list(rows.names),
        facts={
            name: column_facts(array, records, are_texts=name in may_be_numbers)
            for name, array in columns.items()
        },
        labels={
            name: _distinct_words(
                columns[name], limit=_MAX_SPLIT_WORDS if name in maybe_splits else None
            )
            for name in of_words
        },
        sums=rows.sums,
        chats=sorted(rows.chats),
        class_names=dict(rows.class_names),
    )


def _digests_of_texts(columns: Sequence[pa.Array], num_rows: int) -> pa.Array:
    """Return a digest of the texts of each row; rows with equal digests are duplicates."""
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    values = rows if columns else [()] * num_rows
    digests = [hashlib.blake2b(repr(v).encode(), digest_size=16).digest() for v in values]
    return pa.array(digests, pa.binary(16))


def _distinct_words(column: pa.Array, *, limit: int | None) -> list[str]:
    """Return the different values of a column of labels or splits, or of lists of these.

    With a limit, return at most this number of values.
    """
    array = column.flatten() if pa.types.is_list(column.type) else column
    if pa.types.is_null(array.type):
        return []
    words: list[str] = pc.unique(as_strings(array).drop_null())[:limit].to_pylist()
    return words


def _chats_in_texts(rows: Rows, names: Collection[str]) -> Iterator[str]:
    """Yield the columns of kind `json` whose strings are chats, which a CSV may have."""
    for name in names:
        array = rows.columns.get(name)
        if name in rows.chats or array is None or not pa.types.is_string(array.type):
            continue
        texts = array.drop_null().to_pylist()
        try:
            if texts and all(is_chat(json.loads(text)) for text in texts):
                yield name
        except (ValueError, RecursionError):
            continue


def _render_chats(rows: Rows, texts: Sequence[str], tokenizer: str | None) -> dict[str, pa.Array]:
    """Render chats as text for a tokenizer, and remove rows that its template refuses."""
    names = [name for name in texts if name in rows.chats] or ([] if texts else [*rows.chats])
    if tokenizer is None or len(names) != 1:  # the plan reports this
        return {}
    from components.tables.chats import ChatError, load_template

    template, (name,) = load_template(tokenizer), names
    rendered: list[str | None] = []
    bounds: list[list[int] | None] = []
    bad: list[BadRow] = []
    for record, text in zip(rows.records.tolist(), rows.columns[name].to_pylist(), strict=True):
        try:
            shown, spans = (None, None) if text is None else template.render(json.loads(text))
            rendered.append(shown)
            bounds.append(None if spans is None else [*itertools.chain.from_iterable(spans)])
        except ChatError as error:
            bad.append(BadRow(record, "BAD_CHAT", f"column {name!r}: {error}"))
    if bad:
        rows.keep(~np.isin(rows.records, [row.record for row in bad]))
        rows.bad = sorted([*rows.bad, *bad], key=lambda row: row.record)
    return {
        _CHAT_TEXT: pa.array(rendered, pa.string()),
        _CHAT_SPANS: pa.array(bounds, pa.list_(pa.int64())),
    }


def _check_text_rules(rules: TextRules, names: Sequence[str]) -> None:
    """Raise ConfigError for rules that would change JSON."""
    for setting, default in (("lowercase", False), ("normalize", None)):
        value = getattr(rules, setting)
        if names and value != default:
            allowed = f"{default!r} where the text is JSON, as of column {names[0]!r}"
            raise ConfigError.of(setting, value, allowed=allowed)


def _path(folder: str, number: int) -> str:
    return join(folder, f"rows/{number:06d}.arrow")


def read_columns(
    folder: str, number: int, names: Sequence[str]
) -> tuple[dict[str, pa.Array], npt.NDArray[np.int64]]:
    """Return the columns of an inspected piece, and the numbers of its rows."""
    batch = read_batch(_path(folder, number), 0)
    stored_columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = {
        name: stored_columns[_PREFIX + name] for name in names if _PREFIX + name in stored_columns
    }
    return columns, stored_columns[_RECORD].to_numpy()


def read_chats(folder: str, number: int) -> tuple[pa.Array, pa.Array]:
    """Return a piece's chats as text, and the spans of the text that the assistant wrote."""
    batch = read_batch(_path(folder, number), 0)
    stored_columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    nothing = pa.nulls(len(batch), pa.string()), pa.nulls(len(batch), pa.list_(pa.int64()))
    return stored_columns.get(_CHAT_TEXT, nothing[0]), stored_columns.get(_CHAT_SPANS, nothing[1])


def read_digests(folder: str, number: int) -> npt.NDArray[np.void]:
    """Return the digest of each row's text, `(rows,) 16 bytes`."""
    batch = read_batch(_path(folder, number), 0)
    digests = batch.column(batch.schema.get_field_index(_DIGEST))
    return np.frombuffer(digests.buffers()[1], "V16", len(digests))


@dataclasses.dataclass(frozen=True)
class TokenPlan:
    """The settings of tokenization: text column, tokenizer, and whether the text is kept."""

    column: str
    tokenizer: str
    spec: TokenSpec
    keep_text: bool
    is_chat: bool = False


@dataclasses.dataclass(frozen=True)
class PieceRows:
    """An inspected piece, and the decisions about its rows."""

    number: int
    source: str
    names: Sequence[str] | None  # names of all rows found, if they have their own
    first_record: int  # number of its first row in its source
    splits: str  # the folder of files with the split of each kept row
    firsts: tuple[int, ...]  # number of earlier rows in each split


@dataclasses.dataclass
class EncodingReport:
    """The result of encoding one piece."""

    labels: list[tuple[str, dict[int, int]]]  # examples by split and class (id or number)
    missing: list[str]  # columns that are missing in an example
    lengths: dict[str, tuple[int, int]]  # minimum and maximum length of each list column


def id_feature(names: Any) -> str:
    """Return the name of the feature with the source of an example."""
    return next(name for name in _ID_FEATURES if name not in names)


class _EncodedRows(NamedTuple):
    """The framed examples of a piece, their splits, and the CRC-32C of their names if known."""

    frames: pa.Array
    splits: Numbers
    names: npt.NDArray[np.uint32] | None
    features: _Arrays


def encode_pieces(
    folder: str,
    wanted: Sequence[Column],
    vocabularies: Mapping[str, Sequence[str]],
    tokens: TokenPlan | None,
    shuffles: Sequence[ExternalShuffle],
    pieces: Sequence[PieceRows],
) -> list[EncodingReport]:
    """Encode the rows of neighbouring pieces as framed examples, and write one run per shuffle."""
    reports = []
    frames: list[list[pa.Array]] = [[] for _ in shuffles]
    positions: list[list[npt.NDArray[np.int64]]] = [[] for _ in shuffles]
    names: list[list[npt.NDArray[np.uint32] | None]] = [[] for _ in shuffles]
    for piece in pieces:
        with _naming(piece.source):
            encoded = _encode_piece(folder, wanted, vocabularies, tokens, piece)
        labels = list[tuple[str, dict[int, int]]]()
        for split, shuffle in enumerate(shuffles):
            mine = np.flatnonzero(encoded.splits == split)
            if not len(mine):
                continue
            first = piece.firsts[split]
            is_all = len(mine) == len(encoded.splits)
            frames[split].append(encoded.frames if is_all else encoded.frames.take(pa.array(mine)))
            positions[split].append(shuffle.layout.positions(first, first + len(mine)))
            names[split].append(None if encoded.names is None else encoded.names[mine])
            labels.append((shuffle.layout.split, _label_counts(wanted, encoded.features, mine)))
        reports.append(_report_of(encoded, labels))
    for split, shuffle in enumerate(shuffles):
        if frames[split]:
            known = [name for name in names[split] if name is not None]
            joined = np.concatenate(known) if len(known) == len(names[split]) else None
            run = run_of(frames[split], positions[split], joined)
            shuffle.scatter(f"{pieces[0].number:06d}", run)
    return reports


def _encode_piece(
    folder: str,
    wanted: Sequence[Column],
    vocabularies: Mapping[str, Sequence[str]],
    tokens: TokenPlan | None,
    piece: PieceRows,
) -> _EncodedRows:
    """Encode the rows of one piece."""
    splits = read_splits(folder, piece.splits, piece.number)
    columns, records = read_columns(folder, piece.number, [column.name for column in wanted])
    features: dict[str, pa.Array] = {}
    for column in wanted:
        array = cast_column(columns.get(column.name, pa.nulls(len(records))), column)
        is_label = column.kind == "label"
        features[column.name] = label_ids(array, vocabularies[column.name]) if is_label else array
    features[id_feature(features)] = _ids(piece, records)
    if tokens is not None and tokens.is_chat:
        features[_CHAT_TEXT], features[_CHAT_SPANS] = read_chats(folder, piece.number)
    kept = splits != EXCLUDED
    if not kept.all():
        features = {name: array.filter(pa.array(kept)) for name, array in features.items()}
        splits = splits[kept]
    if tokens is not None:
        from components.tables.tokenizing import same_tokenizer

        tokenizer = same_tokenizer(tokens.tokenizer, tokens.spec)
        if tokens.is_chat:
            chats = features.pop(_CHAT_TEXT), features.pop(_CHAT_SPANS)
            features[TOKENS], features[LOSS_MASK] = tokenizer.encode_chats(*chats)
        else:
            features[TOKENS] = tokenizer.encode(features[tokens.column])
        if not tokens.keep_text:
            del features[tokens.column]
    batches = [
        frame_batch(encode_batch({n: a.slice(start, _BATCH_ROWS) for n, a in features.items()}))
        for start in range(0, len(splits), _BATCH_ROWS)
    ]
    frames = pa.concat_arrays(batches) if batches else pa.array([], pa.binary())
    return _EncodedRows(frames, splits, _names_of(features), features)


def _report_of(encoded: _EncodedRows, labels: list[tuple[str, dict[int, int]]]) -> EncodingReport:
    """Return the label counts, missing features and list lengths of a piece."""
    lengths = {}
    for name, array in encoded.features.items():
        if pa.types.is_list(array.type) and len(array):
            sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
            lengths[name] = (int(sizes.min()), int(sizes.max()))
    missing = [name for name, array in encoded.features.items() if array.null_count]
    return EncodingReport(labels, missing, lengths)


def divide_runs(shuffles: Sequence[ExternalShuffle], group: tuple[int, int, int]) -> None:
    """Divide a group of runs of a split's shuffle, given the numbers of split, level and group."""
    split, level, index = group
    shuffles[split].divide(level, index)


def gather_shards(shuffles: Sequence[ExternalShuffle], numbers: tuple[int, int]) -> list[Shard]:
    """Write the shards of a task of a split's shuffle, given the numbers of both."""
    split, task = numbers
    return shuffles[split].gather(task)


def _ids(piece: PieceRows, records: npt.NDArray[np.int64]) -> pa.Array:
    if (names := piece.names) is not None:
        return pa.array([encode_path(names[record]) for record in records.tolist()], pa.binary())
    numbers = pc.cast(pa.array(records + (piece.first_record + 1)), pa.string())
    source = pa.scalar(encode_path(f"{piece.source}:"), pa.binary())
    return pc.binary_join_element_wise(source, numbers.cast(pa.binary()), b"")


def _names_of(features: _Arrays) -> npt.NDArray[np.uint32] | None:
    """Return the CRC-32C of each example's name (see `NAME_FEATURES`), or None if not available."""
    kinds = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
    named = [features[name] for name in NAME_FEATURES if name in features]
    texts = [array.cast(pa.binary()) for array in named if array.type in kinds]
    if not texts or any(pa.types.is_list(array.type) for array in named):
        return None
    return np.array([name_crc(name) for name in pc.coalesce(*texts).to_pylist()], np.uint32)


def _label_counts(
    columns: Sequence[Column], features: _Arrays, rows: npt.NDArray[np.int64]
) -> dict[int, int]:
    """Return the number of rows in each class, by the class's id or number."""
    place = label_column(columns)
    if place is None or columns[place].kind not in ("int", "label"):
        return {}
    array = features[columns[place].name].take(pa.array(rows))
    values = array.flatten() if pa.types.is_list(array.type) else array
    counts = pc.value_counts(values.drop_null()).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counts}


# Serialized and framed `tf.train.Example` messages, a batch of columns at a time ------------------


def encode_batch(columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return every row as a serialized message, in a binary array.

    Args:
        columns: Arrow arrays of one length, by feature: int64, float32, string or binary, or lists
            of these. A null or an empty list is a missing feature.
    """
    if not columns:
        raise ValueError("expected columns, got none")
    entries = [_entry(name, columns[name]) for name in sorted(columns)]
    parts = [part for parts, _ in entries for part in parts]
    total = np.sum([sizes for _, sizes in entries], axis=0)
    # An example without any feature is empty: it does not even have the tag.
    return _joined(_where(total > 0, _delimited(_FIRST, [], total)[0]) + parts)


def frame_batch(examples: pa.Array) -> pa.Array:
    """Return each message of a binary array in its TFRecord frame, as a binary array."""
    offsets, data = _buffers(examples)
    crc, ends = google_crc32c.value, offsets.tolist()
    sums = [crc(data[begin:end]) for begin, end in itertools.pairwise(ends)]
    footers = frame_footers(np.array(sums, np.uint32))
    return _joined([frame_headers(np.diff(offsets)), examples, footers])


def _entry(name: str, array: pa.Array) -> _Message:
    """Return a feature's entry in the map."""
    kind, parts, sizes = _values(array)
    if kind != "string" or not pa.types.is_list(array.type):  # a packed field, or one string
        parts, sizes = _delimited(_FIRST, parts, sizes)
    parts, sizes = _delimited(_LIST_TAGS[kind], parts, sizes)
    key = name.encode()
    parts, sizes = _delimited(_FIRST + varint(len(key)) + key + _SECOND, parts, sizes)
    parts, sizes = _delimited(_FIRST, parts, sizes)
    present = array.is_valid()
    if pa.types.is_list(array.type):
        present = pc.and_(present, pc.greater(pc.fill_null(pc.list_value_length(array), 0), 0))
    is_there = np.asarray(present.to_numpy(zero_copy_only=False), np.bool_)
    return _where(is_there, parts), np.where(is_there, sizes, 0)


def _values(array: pa.Array) -> tuple[str, list[pa.Array], _Sizes]:
    """Return `int`, `float` or `string`, and the encoded values of each row's list."""
    is_list = pa.types.is_list(array.type)
    values = array.flatten() if is_list else array
    if pa.types.is_floating(values.type):
        kind, octets = "float", values.fill_null(0).to_numpy().astype("<f4").view(np.uint8)
        sizes = np.full(len(values), 4, np.int64)
    elif pa.types.is_integer(values.type):
        kind, (octets, sizes) = "int", _varints(values.fill_null(0).to_numpy())
    else:
        texts = values.cast(pa.binary()).fill_null(b"")
        lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        kind, sizes = "string", lengths.astype(np.int64)
        if not is_list:
            return kind, [texts], sizes
        parts, sizes = _delimited(_FIRST, [texts], sizes)
        octets = np.frombuffer(_buffers(_joined(parts))[1], np.uint8)
    width = int(sizes.max(initial=1))
    if not is_list and len(octets) == width * len(sizes):
        return kind, [octets.reshape(-1, width)], sizes
    ends = _offsets(sizes)
    if is_list:  # ignore the data under nulls
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = ends[_offsets(lengths)]
    return kind, [_binary(ends, octets)], np.diff(ends).astype(np.int64)


def _delimited(tag: bytes, parts: Sequence[Any], sizes: _Sizes) -> _Message:
    """Return a length-delimited field: tag, length, parts."""
    lengths, widths = _varints(sizes)
    if len(lengths) == len(sizes):  # all are below 128, which is common
        tags = np.broadcast_to(np.frombuffer(tag, np.uint8), (len(sizes), len(tag)))
        heads = [tags, lengths[:, None]]
    else:
        heads = [pa.scalar(tag, pa.binary()), _binary(_offsets(widths), lengths)]
    return [*heads, *parts], sizes + len(tag) + widths


def _varints(numbers: npt.NDArray[np.int64]) -> tuple[_Octets, _Sizes]:
    """Encode numbers as varints, concatenated; also return the bytes of each number."""
    unsigned = numbers.astype(np.int64).view(np.uint64)
    widths = np.ones(len(numbers), np.int64)
    most = int(unsigned.max(initial=0))
    if most < 128:
        return unsigned.astype(np.uint8), widths
    for shift in range(7, most.bit_length(), 7):
        widths += unsigned >= np.uint64(1 << shift)
    places = np.arange(widths.max())
    groups = (unsigned[:, None] >> (places * 7).astype(np.uint64)).astype(np.uint8) & np.uint8(0x7F)
    groups |= (places < widths[:, None] - 1) * np.uint8(0x80)
    return groups[places < widths[:, None]], widths


def _where(present: npt.NDArray[np.bool_], parts: list[Any]) -> list[Any]:
    """Return the parts, with nothing in rows whose `present` is False."""
    if present.all():
        return parts
    return [pc.if_else(pa.array(present), _joined(parts), b"")]


def _joined(parts: Sequence[Any]) -> pa.Array:
    """Join parts to one binary array. Parts of fixed width are joined faster by numpy."""
    arrays = list[pa.Array]()
    for are_rows, group in itertools.groupby(parts, lambda part: isinstance(part, np.ndarray)):
        if are_rows:
            rows = np.hstack([*group])
            ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.shape[1])
            arrays.append(_binary(ends, rows))
        else:
            arrays += group
    return pc.binary_join_element_wise(*arrays, b"")


def _binary(offsets: npt.NDArray[np.int32], data: _Octets) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _buffers(array: pa.Array) -> tuple[npt.NDArray[np.int32], bytes]:
    """Return the offsets from 0 and the bytes of a binary array without nulls."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1]
    data = array.buffers()[2]
    whole = data.slice(offsets[0], offsets[-1] - offsets[0]).to_pybytes() if data else b""
    return offsets - offsets[0], whole


def _offsets(sizes: _Sizes) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
