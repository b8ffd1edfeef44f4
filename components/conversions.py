"""The steps of the ExampleGens of files: what is their own of `FileConversion`."""

import dataclasses

from components.common.entry import InputTable
from components.common.layout_inputs import LayoutInputs
from components.common.tasks import Runner
from components.example_gen.file_conversion import FileConversion
from components.example_gen.inputs import InputSelection
from components.example_gen.settings import (
    LISTS,
    AudioSettings,
    ExampleGenSettings,
    MediaSettings,
    TextSettings,
)
from components.layouts import LOOKED_FOR, is_source_file, read_layout
from components.tables.pieces import select_settings
from trainer_utils.format import ConfigError


class ImageConversion(FileConversion):
    """Images, and lists of them."""

    unit, media = "images", "image"
    looked_for = LOOKED_FOR

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return is_source_file(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> InputTable:  # noqa: D102
        return read_layout(inputs, layout=layout)

    def adjusted_settings(self, settings: MediaSettings, found: InputTable) -> MediaSettings:
        """The settings for inputs whose boxes or label maps must go on fitting their images.

        Those are drawn on a file's pixels as they lie, so these are not turned.
        """
        settings = super().adjusted_settings(settings, found)
        has_boxes = any(column.name == "xmin" for column in found.columns)
        if has_boxes and settings.images.encoding == "raw":
            rule = "'file' for images with boxes, since raw ones are cut to a square"
            raise ConfigError.of("encoding", "raw", allowed=rule)
        if not has_boxes and all(blob.kind != "label_map" for blob in found.blobs):
            return settings
        images = dataclasses.replace(settings.images, orientation="keep")
        return dataclasses.replace(settings, images=images)


class AudioConversion(FileConversion):
    """Sounds, and lists of them."""

    unit, media = "sounds", "audio"
    looked_for = f"a list of sounds ({', '.join(LISTS)}), and sounds in folders"


class ListConversion(FileConversion):
    """Tables whose rows name images or sounds."""

    unit, media = "rows", "image"
    looked_for = f"a table ({', '.join(LISTS)})"

    def __init__(
        self, settings: ExampleGenSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        super().__init__(select_settings(MediaSettings, settings), selection, runner)


def conversion_class(settings: ExampleGenSettings) -> type[FileConversion]:
    """The steps that are for these settings, of images, sounds, or tables that name some."""
    if isinstance(settings, TextSettings):
        return ListConversion
    return AudioConversion if isinstance(settings, AudioSettings) else ImageConversion
