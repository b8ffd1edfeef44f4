"""From an entry's files to what its example holds of them.

media = store_media(entry, blobs, (BlobColumn("image", "image"),), settings)
describe_media(media.values())        # {'height': 480, 'width': 640, 'channels': 3}
"""

from collections.abc import Iterable, Mapping, Sequence

from components.common.entry import BlobColumn, Entry, Value
from components.common.rejects import RejectedInputError
from components.example_gen.file_reports import Stored
from components.example_gen.settings import MediaSettings
from components.media.audio import StoredAudio, store_audio
from components.media.decoding import open_image
from components.media.images import StoredImage, store_image, store_label_map

# What the first file of a kind is described by, in features of these names.
DESCRIPTIONS = {
    "image": ("height", "width", "channels"),
    "audio": ("sample_rate", "num_frames"),
}


def store_media(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    columns: Sequence[BlobColumn],
    settings: MediaSettings,
) -> dict[str, Stored]:
    """What is kept of an entry's files, by feature.

    Args:
        blobs: their bytes, or why they could not be read.

    Raises:
        RejectedInputError: one cannot become part of an example.
    """
    if isinstance(blobs, RejectedInputError):
        raise blobs
    media: dict[str, Stored] = {}
    for column, data, blob in zip(columns, blobs, entry.blobs, strict=True):
        # A row of a table has no name of its own but the entry's.
        filename = entry.name if len(columns) == 1 or blob.row is not None else blob.path
        try:
            stored = _stored(column.kind, data, settings, filename)
        except RejectedInputError as error:
            if len(columns) == 1:
                raise
            place = f"row {blob.row}" if blob.row is not None else blob.path
            detail = f"{column.name}, {place}: {error.detail}"
            raise RejectedInputError(error.code, detail) from error
        if column.kind == "label_map":
            _check_size(stored, media.values())
        media[column.name] = stored
    return media


def _stored(kind: str, data: bytes, settings: MediaSettings, filename: str) -> Stored:
    if kind == "audio":
        return store_audio(data, settings.audio, filename=filename)
    if kind == "image":
        return store_image(data, settings.images, filename=filename)
    return store_label_map(data, settings.images)


def _check_size(label_map: Stored, media: Iterable[Stored]) -> None:
    assert isinstance(label_map, StoredImage)
    photo = next(stored for stored in media if isinstance(stored, StoredImage))
    if (label_map.height, label_map.width) != (photo.height, photo.width):
        raise RejectedInputError(
            "LABEL_MAP_SIZE",
            f"expected {photo.width} x {photo.height} as the image has, "
            f"got {label_map.width} x {label_map.height}",
        )


def check_annotation(
    media: Mapping[str, Stored],
    blobs: list[bytes] | RejectedInputError,
    size: Sequence[Value],
    settings: MediaSettings,
) -> dict[str, Stored]:
    """Compares an image with the size that its annotation has scaled the boxes by.

    Boxes fit an image that was scaled since; of an image that has been cut or turned, or is
    another one, nobody knows where they are. What is scaled, give or take a pixel, is counted.

    Args:
        media: what is kept of the image.
        blobs: its file.
        size: height and width, as the annotation says.
        settings: of the component.

    Returns:
        The same, with the conversion BOXES_SCALED where the sizes differ.

    Raises:
        RejectedInputError: BAD_ANNOTATION: it is of an image of other proportions.
    """
    ((name, stored),) = media.items()
    said_height, said_width = size
    assert isinstance(stored, StoredImage)
    assert isinstance(blobs, list)
    assert isinstance(said_height, int)
    assert isinstance(said_width, int)
    if (stored.height, stored.width) == (said_height, said_width):
        return {name: stored}
    # It may be we who have scaled it.
    width, height = open_image(blobs[0], max_pixels=settings.images.max_pixels).size
    if (height, width) == (said_height, said_width):
        return {name: stored}
    edges = (width, height, said_width, said_height)
    if abs(said_width * height - said_height * width) > max(edges):
        is_turned = (said_height, said_width) == (width, height)
        raise RejectedInputError(
            "BAD_ANNOTATION",
            f"expected the size of its image, {width} x {height}, got {said_width} x {said_height}"
            + (": the image turned by a quarter. Save it upright" if is_turned else ""),
        )
    return {name: stored._replace(conversions=(*stored.conversions, "BOXES_SCALED"))}


def describe_media(media: Iterable[Stored]) -> dict[str, int]:
    """The sizes of the first image and of the first sound, as features."""
    features: dict[str, int] = {}
    for stored in media:
        kind = "audio" if isinstance(stored, StoredAudio) else "image"
        for name in DESCRIPTIONS[kind]:
            features.setdefault(name, getattr(stored, name))
    return features
