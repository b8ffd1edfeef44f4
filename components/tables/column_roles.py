"""Handle columns with a special role: splits, labels with their vocabularies, and text."""

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.tables.column_types import as_strings
from components.tables.pieces import Rows
from trainer_utils.core.errors import ConfigError, InputError, did_you_mean
from trainer_utils.core.printable import printable
from trainer_utils.format import canonical_split
from trainer_utils.format.naming import vocabulary_file
from trainer_utils.storage.paths import display_path, encode_path

SPLIT_NAMES = ("split", "ml_use")
# Split columns only if each value names a split and, apart from `set`, several splits occur.
MAYBE_SPLITS = (
    *("set", "subset", "partition", "phase", "usage", "fold", "mode", "stage", "part"),
    *("data_split", "dataset_split", "split_name", "data_set", "dataset", "data_type"),
)
_NUMBERED = frozenset(("fold", "partition", "subset", "data_split", "dataset_split"))
_SPLIT_FLAG = re.compile(r"is_?([a-z]+)", re.IGNORECASE)  # is_valid, isTrain
SPLIT_COLUMNS = frozenset(SPLIT_NAMES)
_MAX_SPLIT_WORDS = 8  # values of a column that may name splits
_MAX_FOLDS = 20
_MISSING = frozenset(("nan", "<na>", "n/a", "null", "?"))
_NUMBER = re.compile(r"\d+(\.0)?\Z")
_UNASSIGNED = ("", "unassigned")
_DISCARDED = "discard"  # TFRecorder's word for rows to leave out
_TEXT_NAMES = ("text", "sentence", "review", "content", "document", "body", "comment")


class NoSplit(NamedTuple):
    """The reason why a row is in no split: a reject code (None: skipped on purpose) and detail."""

    code: str | None
    detail: str


def split_column(
    names: Sequence[str], *, given: Mapping[str, str], words_of: Callable[[str], Iterable[str]]
) -> str | None:
    """Return the column with each row's split, or None.

    Args:
        names: the columns of the table.
        given: the kinds that the user sets, by column.
        words_of: returns the values of a column.

    Raises:
        ConfigError: `given` names two split columns.
    """
    asked = [name for name, kind in given.items() if kind == "split"]
    if len(asked) > 1:
        raise ConfigError.of("columns", ", ".join(asked), allowed="one 'split'")
    if asked:
        return asked[0]
    free = {name.lower(): name for name in reversed(names) if name not in given}
    split_name = next((free[name] for name in SPLIT_NAMES if name in free), None)
    if split_name is not None:
        return split_name
    for maybe in filter(free.__contains__, MAYBE_SPLITS):
        words = {word for word in words_of(free[maybe]) if word}
        splits = {canonical_split(word.strip()) for word in words} - {None}
        others = sorted(word for word in words if not is_split_word(word))
        if splits and not others and (len(splits) > 1 or maybe == "set"):
            return free[maybe]
        if splits and others and len(words) <= _MAX_SPLIT_WORDS:
            logging.warning(
                "column %r is read as a feature, not as splits: %r names no split, though %r does. "
                "If the column names the splits, write train, val, test, UNASSIGNED or DISCARD in "
                "each row",
                *(free[maybe], others[0], min(word for word in words if is_split_word(word))),
            )
        if maybe in _NUMBERED and 1 < len(words) <= _MAX_FOLDS and all(map(_NUMBER.match, words)):
            logging.warning(
                "column %r is read as a feature, not as splits. If its numbers are splits or "
                "folds, replace it by a column 'split' with the words train, val and test",
                free[maybe],
            )
    for name in free.values():
        match = _SPLIT_FLAG.fullmatch(name)
        if match is not None and canonical_split(match[1]):
            logging.warning(
                "column %r is read as a feature, not as splits. If it names the splits, replace it "
                "by a column 'split' with the words train, val and test",
                name,
            )
    return None


def is_split_word(word: str) -> bool:
    """Return whether a value names a split, or is a word such as UNASSIGNED or DISCARD."""
    split = split_of_word(word, column="")
    return not isinstance(split, NoSplit) or split.code is None


def split_of_word(word: str, *, column: str) -> str | NoSplit | None:
    """Return the split that a value names, or None if the hash is to decide.

    Args:
        word: the value.
        column: its column, for the message.

    Returns:
        The canonical split name; None for an unassigned row; a `NoSplit` for one to leave out.
    """
    word = word.strip()
    if word.lower() in _UNASSIGNED:
        return None
    if word.lower() == _DISCARDED:
        return NoSplit(None, f"{column} {word!r}")
    return canonical_split(word) or NoSplit(
        "UNKNOWN_SPLIT",
        f"column {column!r}: expected TRAIN, VALIDATION, TEST, UNASSIGNED or DISCARD, got "
        f"{word!r}. If it is not a split: {how_to_set(columns={column: 'string'})}",
    )


def make_vocabularies(
    labels: Mapping[str, Iterable[str]],
    *,
    given: Mapping[str, tuple[str, ...]],
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return the vocabulary of each label feature: as given, or its values in sorted order.

    Args:
        labels: the label values, by feature.
        given: vocabularies that the user sets, by feature.
        known: earlier labels by feature. They come first, so that their ids do not change.

    Raises:
        ConfigError: a vocabulary is given for a feature that is not a label.
        InputError: a label is not a line of UTF-8, or two labels that were not given look alike.
    """
    for name in given:
        if name not in labels:
            allowed = f"a feature of labels ({', '.join(labels) or 'there is none'})"
            meant = did_you_mean(name, labels).strip()
            raise ConfigError.of("vocabulary", name, allowed=allowed, advice=meant)
    vocabularies = {}
    for name, values in labels.items():
        known_labels = [*(known or {}).get(name, ()), *sorted(set(values), key=encode_path)]
        vocabularies[name] = given.get(name) or tuple(dict.fromkeys(known_labels))
        vocabulary_file(name)  # raises if the feature's name is not a valid file name
        forms: dict[str, str] = {}
        for label in vocabularies[name]:
            rule = None
            if "\n" in label or "\r" in label:
                rule = "one line, since a vocabulary has one label per line"
            elif label != display_path(label):
                rule = "a name in UTF-8. Rename that folder"
            if rule:
                raise InputError(f"{printable(name)} {display_path(label)!r}: expected {rule}.")
            # macOS decomposes accents in file names (NFD); other systems mostly use NFC.
            other = forms.setdefault(unicodedata.normalize("NFC", label).strip(), label)
            if other != label and name not in given:
                raise InputError(
                    f"{printable(name)} {label!r}: expected one spelling of it, got {other!a} and "
                    f"{label!a}, which look alike (spaces, or Unicode normal forms). Rename one, "
                    "or list both in the setting vocabulary if they are two classes."
                )
        if name not in given:
            _warn_of_cases(name, vocabularies[name])
            _warn_of_missing(name, vocabularies[name])
    return vocabularies


def _warn_of_missing(name: str, labels: Sequence[str]) -> None:
    """Log a warning if a label is a word that pandas and others write for a missing value."""
    missing = [label for label in labels if label.lower() in _MISSING or label == "None"]
    if missing and len(labels) > len(missing):
        logging.warning(
            "%s: %r is a class. If it means that the label is missing, delete its rows, or empty "
            "the field to list them as rejects",
            *(name, missing[0]),
        )


def _warn_of_cases(name: str, labels: Sequence[str]) -> None:
    """Log a warning if labels of several letters differ only in upper and lower case."""
    spellings: dict[str, str] = {}
    for label in labels:
        other = spellings.setdefault(label.casefold(), label)
        if other != label and len(label) > 1:  # A and a are different letters
            logging.warning(
                "%s: %r and %r are two classes, though they differ only in case. If they are one, "
                "rename one of them",
                *(printable(name), other, label),
            )
            return


def label_ids(array: pa.Array, vocabulary: Sequence[str]) -> pa.Array:
    """Return the vocabulary indices of strings, or of lists of strings; null if missing."""
    values = pa.array(vocabulary, pa.string())
    if pa.types.is_list(array.type):
        ids = pc.index_in(array.values, value_set=values).cast(pa.int64())
        return pa.ListArray.from_arrays(array.offsets, ids)
    return pc.index_in(array, value_set=values, skip_nulls=True).cast(pa.int64())


def text_columns(names: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """Return the text columns that the user names, or else the first with a usual name."""
    given = [name for name, kind in columns.items() if kind == "text"]
    if given:
        return [name for name in given if name in names]
    by_lower = {name.lower(): name for name in reversed(names) if name not in columns}
    return [by_lower[name] for name in _TEXT_NAMES if name in by_lower][:1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRules:
    """Settings that change text or skip it."""

    lowercase: bool = False
    normalize: str | None = None  # the Unicode normalization form, or None
    min_chars: int = 0  # shorter and longer texts are skipped
    max_chars: int | None = None
    deduplicate: bool = False  # skip duplicates of earlier texts; applied once all are known

    def apply(self, rows: Rows, texts: Sequence[str]) -> list[int]:
        """Change the text of rows in place, drop rows, and return the numbers of the dropped rows.

        Args:
            rows: the rows.
            texts: the text columns.

        Raises:
            ConfigError: rules are set, but there is no text column.
            InputError: a text column has lists.
        """
        asked = self.lowercase or self.normalize or self.min_chars
        if (asked or self.max_chars or self.deduplicate) and rows.columns and not texts:
            raise ConfigError(
                "lowercase, normalize, min_chars, max_chars, deduplicate: expected a column with "
                f"the texts, got {', '.join(rows.columns)}. "
                f"Name it, such as {how_to_set(columns={next(iter(rows.columns)): 'text'})}."
            )
        for name in texts:
            array = rows.columns[name]
            if pa.types.is_nested(array.type):
                advice = f"Keep them unchanged: {how_to_set(columns={name: 'string'})}."
                raise InputError(f"column {name!r}: expected strings, got lists. {advice}")
            array = as_strings(array)
            if self.normalize:
                array = _normalized(array, self.normalize)
            if self.lowercase:
                array = pc.utf8_lower(array)
            rows.columns[name] = array
        if not self.min_chars and self.max_chars is None:
            return []
        fits = np.ones(len(rows.records), np.bool_)
        for name in texts:
            lengths = pc.fill_null(pc.utf8_length(rows.columns[name]), 0)
            sizes = lengths.to_numpy(zero_copy_only=False)
            fits &= (sizes >= self.min_chars) & (sizes <= (self.max_chars or np.inf))
        gone: list[int] = rows.records[~fits].tolist()
        if gone:
            rows.keep(fits)
        return gone


def _normalized(array: pa.Array, form: Any) -> pa.Array:
    """Normalize strings in Python, since Arrow 10 does not compose for NFC and NFKC."""
    others = pc.fill_null(pc.invert(pc.string_is_ascii(array)), False)
    if not pc.any(others).as_py():
        return array
    texts = [unicodedata.normalize(form, text) for text in array.filter(others).to_pylist()]
    return pc.replace_with_mask(array, others, pa.array(texts, pa.string()))
