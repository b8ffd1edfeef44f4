"""The steps of TextExampleGen: of texts and tables, and of tables whose rows name files.

conversion = TextConversion.of(exec_properties, InputSelection(base="reviews.csv"), make_pipeline)
"""

from collections.abc import Iterable
from typing import Any

from components.common.layout_inputs import LayoutInputs
from components.common.listing import ExcludedInput
from components.common.settings import ExecProperties
from components.example_gen.conversion import Conversion, MakePipeline
from components.example_gen.file_conversion import FileConversion
from components.example_gen.inputs import InputSelection
from components.example_gen.media_settings import MediaSettings
from components.example_gen.row_conversion import RowConversion
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import names_at_top
from components.tables.pieces import Piece
from components.text_example_gen.layouts import describe_search, find_pieces, is_source_file
from components.text_example_gen.settings import TextSettings

__all__ = ["ListConversion", "TextConversion"]


class TextConversion(RowConversion):
    """Texts, and tables without files."""

    unit = "texts"
    settings_class = TextSettings
    settings: TextSettings

    @classmethod
    def of(  # noqa: D102
        cls,
        properties: ExecProperties,
        selection: InputSelection,
        make_pipeline: MakePipeline | None,
    ) -> Conversion[Any]:
        if TextSettings.from_properties(properties).names_files:
            return ListConversion.of(properties, selection, make_pipeline)
        return super().of(properties, selection, make_pipeline)

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return is_source_file(path)

    def find_pieces(  # noqa: D102
        self, inputs: LayoutInputs, *, folder: str
    ) -> tuple[list[Piece], list[ExcludedInput]]:
        return find_pieces(inputs, self.settings, folder=folder)

    def describe_search(self, names: Iterable[str]) -> str:  # noqa: D102
        return describe_search(names)


class ListConversion(FileConversion):
    """Tables whose rows name images or sounds."""

    unit, media = "rows", "image"
    settings_class = MediaSettings

    def describe_search(self, names: Iterable[str]) -> str:  # noqa: D102
        return f"Looked for a table ({', '.join(LISTS)}); at its top: {names_at_top(names)}."
