"""What must be known to read tables, beside the files themselves.

TableOptions(delimiter=";", encoding="latin-1", columns={"note": "ignore"})
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

_Options = TypeVar("_Options")


def select_settings(kind: type[_Options], settings: object) -> _Options:
    """Makes a dataclass of the settings of its fields' names; where there is none, its default."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(settings, field.name)]  # type: ignore[arg-type]
    values: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return kind(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How tables are read, by settings that an ExampleGen has checked.

    Args:
        columns: kinds by column, as the user sets them.
        column_names: of CSV and TSV without a header, or in place of its names.
        header: whether the first row of CSV and TSV has the names; None where that is recognised.
        delimiter: between the fields of CSV and TSV; None for the layout's own.
        encoding: of the files, as Python names it.
    """

    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    column_names: Sequence[str] = ()
    header: bool | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read as they are."""
        return self.encoding in ("utf-8", "utf-8-sig", "ascii")

    @property
    def ignored(self) -> frozenset[str]:
        """Columns that are ignored."""
        return frozenset(name for name, kind in self.columns.items() if kind == "ignore")
