"""The settings of TextExampleGen, checked where they are made.

TextSettings(columns={"stars": "float"}, min_chars=20, deduplicate=True)
"""

import codecs
import dataclasses
from collections.abc import Sequence
from typing import Any

from components.common.checks import check_choice, check_number
from components.example_gen.list_files import MEDIA
from components.example_gen.lists import COLUMN_KINDS
from components.example_gen.settings import ExampleGenSettings, check_table_names, check_texts
from trainer_utils.format import ConfigError

__all__ = ["LAYOUTS", "TextSettings"]

LAYOUTS = ("auto", "csv", "tsv", "jsonl", "parquet", "json", "lines", "folder")
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    """What shapes the output, beside TFX's own input_config and output_config.

    Args:
        image_roots: folders beside the input base that a table's rows may point into.
        column_names: of CSV and TSV without a header, or in place of its names.
        header: whether the first row of CSV and TSV has the names; None where that is to be told.
        delimiter: between a table's fields; None for the layout's own.
        encoding: of the files, as Python names it.
        lowercase: whether texts are made lower case.
        normalize: the form of Unicode that texts are brought into, or None.
        min_chars, max_chars: in a text; shorter and longer ones are left out on purpose.
        deduplicate: whether texts that came before are left out on purpose.
    """

    LAYOUTS = LAYOUTS
    JSON_PROPERTIES = ("column_names", "columns", "image_roots", "vocabulary")

    image_roots: Sequence[str] = ()
    column_names: Sequence[str] = ()
    header: bool | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    lowercase: bool = False
    normalize: str | None = None
    min_chars: int = 0
    max_chars: int | None = None
    deduplicate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in self.columns.items():
            check_choice(f"columns[{name!r}]", kind, COLUMN_KINDS)
        check_texts("image_roots", self.image_roots)
        check_table_names(self.column_names, self.header)
        self._check_delimiter()
        self._check_encoding()
        check_choice("lowercase", self.lowercase, (False, True))
        check_choice("normalize", self.normalize, (None, *_FORMS))
        check_number("min_chars", self.min_chars, 0)
        if self.max_chars is not None:
            check_number("max_chars", self.max_chars, max(1, self.min_chars))
        check_choice("deduplicate", self.deduplicate, (False, True))
        if self.names_files:
            self._check_only_for_texts()

    def _check_delimiter(self) -> None:
        delimiter = self.delimiter
        if delimiter is None:
            return
        is_one = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
        if not is_one or delimiter in '"\r\n\0':
            raise ConfigError(
                "delimiter: expected one ASCII character that is no quote and no line end, "
                f"got {delimiter!r}"
            )

    def _check_encoding(self) -> None:
        try:
            codec = codecs.lookup(self.encoding)
            "text".encode(self.encoding)  # some codecs are none of texts
        except (LookupError, TypeError, UnicodeError) as error:
            raise ConfigError(
                "encoding: expected one that Python knows, such as 'utf-8', 'latin-1' or 'utf-16', "
                f"got {self.encoding!r}"
            ) from error
        object.__setattr__(self, "encoding", codec.name)

    def _check_only_for_texts(self) -> None:
        """Refuses what is not done to tables whose rows name files."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in ("encoding", "delimiter", "lowercase", "normalize", "min_chars", "max_chars"):
            if getattr(self, name) != defaults[name]:
                raise ConfigError(
                    f"{name}: expected {defaults[name]!r} for a table whose rows name images or "
                    f"sounds, got {getattr(self, name)!r}"
                )
        if self.deduplicate:
            raise ConfigError(
                "deduplicate: expected False for a table whose rows name images or sounds, got True"
            )

    @property
    def names_files(self) -> bool:
        """Whether the rows of tables name images or sounds."""
        return any(kind in MEDIA for kind in self.columns.values())

    def for_manifest(self) -> dict[str, Any]:
        """The settings as a manifest keeps them: no paths, and of a vocabulary its size."""
        config = super().for_manifest()
        del config["image_roots"]
        return config

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read as they are."""
        return self.encoding in ("utf-8", "utf-8-sig", "ascii")
