"""The settings of TextExampleGen, checked where they are made.

TextSettings(columns={"stars": "float"}, min_chars=20, deduplicate=True)
"""

import codecs
import dataclasses
from typing import Any

from components.example_gen.settings import LISTS, MEDIA, ExampleGenSettings, column_name
from trainer_utils.format import ConfigError
from trainer_utils.format.settings import number, one_of, setting, settings_of, where

__all__ = ["TextSettings"]

_ONLY_FOR_TEXTS = (
    "encoding",
    "delimiter",
    "lowercase",
    "normalize",
    "min_chars",
    "max_chars",
    "deduplicate",
)


def _is_delimiter(value: Any) -> bool:
    is_one = isinstance(value, str) and len(value) == 1 and value.isascii()
    return is_one and value not in '"\r\n\0'


def _encoding(name: str, value: Any) -> str:
    """The one name of an encoding that Python knows under several."""
    try:
        codec = codecs.lookup(value)
        "text".encode(value)  # some codecs are none of texts
    except (LookupError, TypeError, UnicodeError) as error:
        allowed = "one that Python knows, such as 'utf-8', 'latin-1' or 'utf-16'"
        raise ConfigError.of(name, value, allowed=allowed) from error
    return codec.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    """Those of all ExampleGens, and what becomes of texts."""

    layout: str = setting(
        "auto",
        one_of("auto", *LISTS, "json", "lines", "folder"),
        "`auto`, or the name of one: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects by key, or "
        "a list), `lines` (an example a line), `folder` (an example a file).",
    )
    delimiter: str | None = setting(
        None,
        where(_is_delimiter, "one ASCII character that is no quote and no line end"),
        "delimiter of a table, one character. Default: a comma, or a tab for `tsv`.",
    )
    encoding: str = setting("utf-8", _encoding, "encoding of the files, as Python names it.")
    group_by: str | None = setting(
        None,
        column_name,
        "a column, such as an author's id: rows with equal values go to the same split; or "
        "`near_duplicates`: rows whose texts are of the same words but few do.",
    )
    lowercase: bool = setting(False, one_of(False, True), "convert texts to lower case.")
    normalize: str | None = setting(
        None,
        one_of(None, "NFC", "NFD", "NFKC", "NFKD"),
        "normalise texts to a Unicode form: `NFC`, `NFD`, `NFKC` or `NFKD`.",
    )
    min_chars: int = setting(
        0, number(0), "least characters of a text; shorter ones are skipped, and counted."
    )
    max_chars: int | None = setting(
        None, number(1), "most characters of a text; longer ones are skipped, and counted."
    )
    deduplicate: bool = setting(
        False,
        one_of(False, True),
        "skip rows whose text came before, and count them.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_chars is not None:
            number(max(1, self.min_chars))("max_chars", self.max_chars)
        if self.names_files:
            self._check_only_for_texts()

    def _check_only_for_texts(self) -> None:
        """Refuses what is not done to tables whose rows name files."""
        for name in _ONLY_FOR_TEXTS:
            default, value = settings_of(type(self))[name].default, getattr(self, name)
            if value != default:
                allowed = f"{default!r} for a table whose rows name images or sounds"
                raise ConfigError.of(name, value, allowed=allowed)

    @property
    def names_files(self) -> bool:
        """Whether the rows of tables name images or sounds."""
        return any(kind in MEDIA for kind in self.columns.values())
