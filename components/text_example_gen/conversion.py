"""The steps of TextExampleGen: of texts and tables, and of tables whose rows name files.

conversion = TextConversion.of(exec_properties, InputSelection(base="reviews.csv"), runner)
"""

from typing import Any

from components.common.entry import ExcludedInput
from components.common.layout_inputs import LayoutInputs
from components.common.settings import ExecProperties
from components.common.tasks import Runner
from components.example_gen.conversion import Conversion
from components.example_gen.file_conversion import FileConversion
from components.example_gen.inputs import InputSelection
from components.example_gen.media_settings import MediaSettings
from components.example_gen.row_conversion import RowConversion
from components.example_gen.settings import LISTS
from components.tables.pieces import Piece
from components.text_example_gen.layouts import LOOKED_FOR, find_pieces
from components.text_example_gen.settings import TextSettings

__all__ = ["ListConversion", "TextConversion"]


class TextConversion(RowConversion):
    """Texts, and tables without files."""

    unit, looked_for = "texts", LOOKED_FOR
    settings_class = TextSettings
    settings: TextSettings

    @classmethod
    def of(  # noqa: D102
        cls,
        properties: ExecProperties,
        selection: InputSelection,
        runner: Runner | None,
    ) -> Conversion[Any]:
        if TextSettings.from_properties(properties).names_files:
            return ListConversion.of(properties, selection, runner)
        return super().of(properties, selection, runner)

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of: any is."""
        return bool(path)

    def find_pieces(  # noqa: D102
        self, inputs: LayoutInputs, *, folder: str
    ) -> tuple[list[Piece], list[ExcludedInput]]:
        return find_pieces(inputs, self.settings, folder=folder)


class ListConversion(FileConversion):
    """Tables whose rows name images or sounds."""

    unit, media = "rows", "image"
    settings_class = MediaSettings
    looked_for = f"a table ({', '.join(LISTS)})"
