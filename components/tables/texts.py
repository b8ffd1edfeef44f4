"""What is done to texts before they are kept: which column has them, and what they are made."""

import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.tables.kinds import texts_of
from components.tables.pieces import Rows
from trainer_utils.format import ConfigError, InputError

_TEXT_NAMES = ("text", "sentence", "review", "content", "document", "body", "comment")


def text_columns(names: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """Those columns that hold the texts of the examples: as the user says, or by their names."""
    given = [name for name, kind in columns.items() if kind == "text"]
    if given:
        return [name for name in given if name in names]
    by_lower = {name.lower(): name for name in reversed(names) if name not in columns}
    return [by_lower[name] for name in _TEXT_NAMES if name in by_lower][:1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRules:
    """How settings change texts, and which texts they skip."""

    lowercase: bool = False
    normalize: str | None = None  # the form of Unicode that texts are brought into, or None
    min_chars: int = 0  # shorter and longer texts are skipped
    max_chars: int | None = None
    deduplicate: bool = False  # whether texts that came before are skipped, once all are known

    def apply(self, rows: Rows, texts: Sequence[str]) -> list[int]:
        """Changes the texts, and leaves out rows; returns the numbers of these.

        Refuses columns of lists, and rules where no column is known to hold texts.
        """
        asked = self.lowercase or self.normalize or self.min_chars
        if (asked or self.max_chars or self.deduplicate) and rows.columns and not texts:
            raise ConfigError(
                "lowercase, normalize, min_chars, max_chars, deduplicate: expected a column with "
                f"the texts, got {', '.join(rows.columns)}. "
                "Name it: columns={'<column>': 'text'}."
            )
        for name in texts:
            array = rows.columns[name]
            if pa.types.is_nested(array.type):
                advice = f"Take them as they are: columns={{{name!r}: 'string'}}."
                raise InputError(f"column {name!r}: expected texts, got lists. {advice}")
            array = texts_of(array)
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
    """By Python, since Arrow 10 leaves out the composition of NFC and NFKC."""
    others = pc.fill_null(pc.invert(pc.string_is_ascii(array)), False)
    if not pc.any(others).as_py():
        return array
    texts = [unicodedata.normalize(form, text) for text in array.filter(others).to_pylist()]
    return pc.replace_with_mask(array, others, pa.array(texts, pa.string()))
