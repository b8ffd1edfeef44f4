"""The settings of ImageExampleGen, checked where they are made.

ImageSettings(target_shard_bytes=64 << 20, seed=7, vocabulary=["cat", "dog"])
"""

import dataclasses

from components.example_gen.media_settings import MediaSettings
from components.example_gen.settings import LISTS, column_name
from components.media.options import AudioOptions, ImageOptions
from trainer_utils.format.settings import group, one_of, setting

__all__ = ["ImageSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(MediaSettings):
    """Those of all media, and the layouts of images."""

    layout: str = setting(
        "auto",
        one_of("auto", "folder", *LISTS, "voc", "segmentation", "coco", "tar"),
        "`auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`, `tsv`, "
        "`jsonl`, `parquet`, `voc`, `segmentation`, `coco`, `tar`.",
    )
    group_by: str | None = setting(
        None,
        column_name,
        "a column, such as a patient's id: rows with equal values go to the same split; or "
        "`near_duplicates`: images that are copies of one another do, encoded anew, resized, "
        "cropped by up to a tenth, made grey or mirrored. Every image is decoded for that.",
    )
    images: ImageOptions = group(ImageOptions)
    audio: AudioOptions = group(AudioOptions, only=("sample_rate",))  # of sounds in a list
