"""The steps of the ExampleGens of files: what is their own of `FileConversion`.

listing = read_layout(inputs, layout="auto")     # of images, in whatever layout they lie
"""

import dataclasses

from components.common.entry import InputTable
from components.common.layout_inputs import LayoutInputs
from components.common.tasks import Runner
from components.example_gen.file_conversion import FileConversion
from components.example_gen.folder import (
    check_no_columns,
    name_simple,
    read_simple,
    refuse_layout,
    without_reserved,
)
from components.example_gen.inputs import InputSelection
from components.example_gen.settings import (
    LISTS,
    AudioSettings,
    ExampleGenSettings,
    MediaSettings,
    TextSettings,
)
from components.layouts import coco, voc, webdataset
from components.tables.pieces import select_settings
from trainer_utils.format import ConfigError

# Whether one is there, its reader, and what is looked for, in that order. VOC's own archive is both
# of the first two.
_STRUCTURED = {
    "voc": (voc.is_here, voc.read, voc.LOOKED_FOR),
    "segmentation": (voc.has_label_maps, voc.read_label_maps, voc.LABEL_MAPS_LOOKED_FOR),
    "coco": (coco.is_here, coco.read, coco.LOOKED_FOR),
    "tar": (webdataset.is_here, webdataset.read, webdataset.LOOKED_FOR),
}


def read_layout(inputs: LayoutInputs, *, layout: str) -> InputTable:
    """Works out split, features and bytes of each input; `layout` is as `ImageSettings` has it.

    Raises:
        InputError: the layout is not recognised, or is malformed.
        ConfigError: `columns` is for lists and archives.
    """
    name = _structured(inputs, layout)
    if name is None:
        return without_reserved(read_simple(inputs, layout=layout))
    if name != "tar":
        check_no_columns(inputs, name)
    _, read, looked_for = _STRUCTURED[name]
    listing = read(inputs)
    if not listing.found:
        refuse_layout(inputs, layout, looked_for)
    # An annotation's height and width are compared with its image's.
    return without_reserved(listing) if name == "tar" else listing


def name_layout(inputs: LayoutInputs, *, layout: str) -> str:
    """Which of the layouts `read_layout` would take the inputs for."""
    return _structured(inputs, layout) or name_simple(inputs, layout=layout)


def _structured(inputs: LayoutInputs, layout: str) -> str | None:
    if layout != "auto":
        return layout if layout in _STRUCTURED else None
    return next((name for name, (is_here, _, _) in _STRUCTURED.items() if is_here(inputs)), None)


class ImageConversion(FileConversion):
    """Images, and lists of them."""

    unit, media = "images", "image"
    looked_for = ", ".join(
        [
            *(looked_for for _, _, looked_for in _STRUCTURED.values()),
            f"a list of images ({', '.join(LISTS)}), and images in folders",
        ]
    )

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return super().is_source_file(path) or webdataset.is_archive(path)

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
