"""The steps of ImageExampleGen: what is its own of the conversion of files.

conversion = ImageConversion.of(exec_properties, InputSelection(base="photos/"), runner)
"""

import dataclasses

from components.common.input_table import InputTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen.file_conversion import FileConversion
from components.example_gen.media_settings import MediaSettings
from components.image_example_gen.layouts import LOOKED_FOR, is_source_file, read_layout
from components.image_example_gen.settings import ImageSettings
from trainer_utils.format import ConfigError

__all__ = ["ImageConversion"]


class ImageConversion(FileConversion):
    """Images, and lists of them."""

    unit, media = "images", "image"
    settings_class = ImageSettings
    looked_for = LOOKED_FOR

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return is_source_file(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> InputTable:  # noqa: D102
        return read_layout(inputs, layout=layout)

    def suited(self, settings: MediaSettings, listing: InputTable) -> MediaSettings:
        """The settings for inputs whose boxes or label maps must go on fitting their images.

        Those are drawn on a file's pixels as they lie, so these are not turned.

        Raises:
            ConfigError: images would be cut, and their boxes would not.
        """
        settings = super().suited(settings, listing)
        has_boxes = any(column.name == "xmin" for column in listing.columns)
        if has_boxes and settings.images.encoding == "raw":
            raise ConfigError(
                "encoding: expected 'file' for images with boxes, since raw ones are cut to a "
                "square, got 'raw'",
                setting="encoding",
            )
        if not has_boxes and all(blob.kind != "label_map" for blob in listing.blobs):
            return settings
        images = dataclasses.replace(settings.images, orientation="keep")
        return dataclasses.replace(settings, images=images)
