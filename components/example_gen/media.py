"""From an entry's files and values to its example."""

from collections.abc import Iterable, Sequence
from typing import Any

from components.common.entry import BlobColumn, Column, Entry, Value
from components.common.file_table import encode_path
from components.common.rejects import RejectedInputError
from components.example_gen.boxes import check_annotation
from components.example_gen.settings import MediaSettings
from components.media.audio import StoredAudio, store_audio
from components.media.images import StoredImage, store_image, store_label_map

Stored = StoredImage | StoredAudio
# What the first file of a kind is described by, in features of these names.
DESCRIPTIONS = {"image": ("height", "width", "channels"), "audio": ("sample_rate", "num_frames")}


def make_example(
    entry: Entry,
    blobs: list[bytes] | RejectedInputError,
    columns: Sequence[Column],
    blob_columns: Sequence[BlobColumn],
    settings: MediaSettings,
) -> tuple[dict[str, Stored], dict[str, Any]]:
    """What an entry's files are stored as, by feature, and all features of its example."""
    if isinstance(blobs, RejectedInputError):
        raise blobs
    media = store_media(entry, blobs, blob_columns, settings)
    if blob_columns[0].kind == "image":  # a sound's `height` is a feature like others
        media = check_annotation(media, blobs[0], columns, entry.values, settings.images)
    features = encode_values(columns, entry.values)
    features |= {"filename": encode_path(entry.name), **describe_media(media.values())}
    return media, features | {feature: stored.data for feature, stored in media.items()}


def store_media(
    entry: Entry, blobs: Sequence[bytes], columns: Sequence[BlobColumn], settings: MediaSettings
) -> dict[str, Stored]:
    """What is kept of an entry's files, by feature."""
    media: dict[str, Stored] = {}
    for column, data, blob in zip(columns, blobs, entry.blobs, strict=True):
        # A row of a table has no name of its own but the entry's.
        filename = entry.name if len(columns) == 1 or blob.row is not None else blob.path
        try:
            if column.kind == "audio":
                media[column.name] = store_audio(data, settings.audio, filename=filename)
            elif column.kind == "image":
                media[column.name] = store_image(data, settings.images, filename=filename)
            else:
                stored = store_label_map(data, settings.images)
                photo = next(one for one in media.values() if isinstance(one, StoredImage))
                if (stored.height, stored.width) != (photo.height, photo.width):
                    rule = f"expected {photo.width} x {photo.height} as the image has"
                    got = f"got {stored.width} x {stored.height}"
                    raise RejectedInputError("LABEL_MAP_SIZE", f"{rule}, {got}")
                media[column.name] = stored
        except RejectedInputError as error:
            if len(columns) == 1:
                raise
            place = f"row {blob.row}" if blob.row is not None else blob.path
            detail = f"{column.name}, {place}: {error.detail}"
            raise RejectedInputError(error.code, detail) from error
    return media


def describe_media(media: Iterable[Stored]) -> dict[str, int]:
    """The sizes of the first image and of the first sound, as features."""
    features: dict[str, int] = {}
    for stored in media:
        kind = "audio" if isinstance(stored, StoredAudio) else "image"
        for name in DESCRIPTIONS[kind]:
            features.setdefault(name, getattr(stored, name))
    return features


def encode_values(columns: Sequence[Column], values: Sequence[Value]) -> dict[str, Any]:
    """An entry's values as features: texts as UTF-8, floats as floats, missing ones left out."""
    features: dict[str, Any] = {}
    for column, value in zip(columns, values, strict=True):
        encode: Any = {"string": encode_path, "float": float}.get(column.kind, int)
        if isinstance(value, tuple):
            features[column.name] = tuple(map(encode, value))
        elif value is not None:
            features[column.name] = encode(value)
    return features
