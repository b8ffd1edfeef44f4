"""The settings of ImageExampleGen, checked where they are made.

ImageSettings(target_shard_bytes=64 << 20, seed=7, vocabulary=["cat", "dog"])
"""

import dataclasses

from components.common.settings import is_text
from components.example_gen.media_settings import MediaSettings
from components.example_gen.settings import LISTS, column_name
from components.media.options import AudioOptions, ImageOptions
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import Settings, group, one_of, setting, where

__all__ = ["ImageSettings", "LayoutNames"]

_path = where(
    lambda value: is_text(value) and not value.startswith("/") and ".." not in value.split("/"),
    "a path relative to input_base",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutNames(Settings):
    """Folders and files of one's own, relative to `input_base`, as Datum's generators take them."""

    image_dir: str | None = setting(
        None,
        _path,
        "the folder of the images: `JPEGImages` of `voc` and `segmentation`; of lists named after "
        "splits, the split's name. `{split}` stands for that name: `images/{split}`.",
    )
    csv_path: str | None = setting(
        None, _path, "the list, or one a split: `labels/{split}.csv`. Default: at the top."
    )
    annotation_dir: str | None = setting(
        None, _path, "the folder of the boxes of `voc`. Default: `Annotations`."
    )
    label_dir: str | None = setting(
        None, _path, "the folder of the label maps of `segmentation`. Default: `SegmentationClass`."
    )
    image_set_dir: str | None = setting(
        None,
        _path,
        "the folder of `train.txt` and the like, of `voc` and `segmentation`. Default: "
        "`ImageSets/Main`, `ImageSets/Segmentation` or `ImageSets`.",
    )
    label_list: str | None = setting(
        None,
        _path,
        "a text whose lines are the classes of the images that lie in no class folder, in the "
        "order of their names, as of ImageNet's validation images.",
    )


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
    names: LayoutNames = group(LayoutNames)
    images: ImageOptions = group(ImageOptions)
    audio: AudioOptions = group(AudioOptions, only=("sample_rate",))  # of sounds in a list

    @property
    def layout_names(self) -> dict[str, str]:
        """The folders and files that are named, by setting."""
        return {name: path for name, path in dataclasses.asdict(self.names).items() if path}

    def for_manifest(self) -> JsonObject:  # noqa: D102
        config = super().for_manifest()
        del config["names"]
        return {**config, **self.layout_names}
