"""Raw inputs of every layout, each with settings of its conversion."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.cases import inputs
from tests.make import archive, encode, jpeg, photo, table, wav, write_files

SPLITS = {"splits": {"train": 2, "eval": 1}}


@dataclasses.dataclass(frozen=True)
class Layout:
    """A function that writes inputs below a folder, and settings of their conversion."""

    write: Callable[[Path], object]
    conversion: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    below: str = ""
    is_audio: bool = False
    channels: int | None = None

    def make(self, base: Path) -> Path:
        self.write(base)
        return base / self.below


def classes(base: Path) -> None:
    write_files(base, {f"{'ab'[n % 2]}/{n:02d}.jpg": jpeg(n, size=(30 + n, 24)) for n in range(20)})


def splits_and_classes(base: Path) -> None:
    names = [f"{s}/{c}/{n}.jpg" for s in ("train", "val", "test") for c in "ab" for n in range(4)]
    write_files(base, {name: jpeg(n) for n, name in enumerate(names)})


def kinds_of_images(base: Path) -> None:
    """Write images that a conversion rotates, converts or keeps."""
    exif = Image.Exif()
    exif[274] = 6
    files = {
        "a/rotated.jpg": photo(1, exif=exif),
        "a/cmyk.jpg": photo(2, mode="CMYK"),
        "a/grey.jpg": photo(3, mode="L"),
        "a/plain.jpg": photo(4),
        "b/alpha.png": photo(5, "PNG", mode="RGBA"),
        "b/palette.png": photo(6, "PNG", mode="P"),
        "b/bitmap.bmp": photo(7, "BMP"),
        "b/animation.gif": photo(8, "GIF"),
        "b/picture.webp": photo(9, "WEBP"),
        "b/scan.tiff": photo(10, "TIFF"),
        "b/deep.png": encode(Image.fromarray(np.full((24, 32), 40_000, np.uint16)), "PNG"),
    }
    write_files(base, files)


def grey_pngs(base: Path) -> None:
    write_files(base, {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG", mode="L") for n in range(9)})


def label_maps(base: Path) -> None:
    files: dict[str, bytes | str] = {"ImageSets/Segmentation/train.txt": "0\n1\n2\n3\n4\n5\n"}
    for n in range(6):
        files[f"JPEGImages/{n}.jpg"] = jpeg(n)
        mask = Image.fromarray((np.arange(24 * 32).reshape(24, 32) % (n + 2)).astype(np.uint8))
        files[f"SegmentationClass/{n}.png"] = encode(mask, "PNG")
    write_files(base, files)


def list_with_values(base: Path) -> None:
    rows = [
        {"file": f"photos/{n}.jpg", "label": "xyz"[n % 3], "score": n / 4, "words": f"text {n}"}
        for n in range(12)
    ]
    write_files(base, {row["file"]: jpeg(n) for n, row in enumerate(rows)})
    write_files(base, {"list.jsonl": table(rows, "jsonl")})


def archives(base: Path) -> None:
    for shard in range(3):
        members: dict[str, bytes | str] = {}
        for n in range(4):
            members[f"{shard}_{n}.jpg"] = jpeg(4 * shard + n)
            members[f"{shard}_{n}.cls"] = str(n % 2)
        write_files(base, {f"shard-{shard}.tar": archive(members)})


def clips(base: Path) -> None:
    files = {f"{'ab'[n % 2]}/{n}.wav": wav(n, frames=300 + 10 * n) for n in range(9)}
    write_files(base, {**files, "a/last.flac": wav(9, kind="FLAC"), "b/x.ogg": wav(3, kind="OGG")})


def parquet_rows(base: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    base.mkdir()
    images = pa.array([jpeg(n) for n in range(17)], pa.binary())
    rows = pa.table({"image": images, "label": [n % 3 for n in range(17)]})
    pq.write_table(rows, base / "rows.parquet", row_group_size=4)


LAYOUTS: Mapping[str, Layout] = {
    "classes": Layout(classes),
    "classes with shares": Layout(classes, SPLITS | {"seed": 7, "num_shards": 3}),
    "classes resized": Layout(classes, {"resize_shorter_side": 12, "quality": 80}),
    "raw pixels": Layout(classes, {"resize_shorter_side": 12, "encoding": "raw"}),
    "stratified": Layout(classes, {"stratify": True, "vocabulary": ["b", "a"]}),
    "balanced by bytes": Layout(classes, {"balance": "bytes", "target_shard_bytes": 4000}),
    "not shuffled": Layout(classes, {"balance": "bytes", "shuffle": False}),
    "splits": Layout(splits_and_classes),
    "kinds of images": Layout(kinds_of_images, {"splits": {"train": 1}}, channels=3),
    "16 bits": Layout(inputs.sixteen_bit_pngs, {"sixteen_bit": "keep", "splits": {"train": 1}}),
    "grey": Layout(grey_pngs),
    "label maps": Layout(label_maps),
    "jsonl": Layout(list_with_values, SPLITS),
    "list file": Layout(list_with_values, below="list.jsonl"),
    "renamed features": Layout(list_with_values, {"feature_names": {"words": "caption"}}),
    "grouped": Layout(list_with_values, {"group_by": "label", **SPLITS}),
    "captions": Layout(inputs.captions),
    "boxes in csv": Layout(inputs.detection_csv),
    "automl": Layout(inputs.automl_boxes),
    "coco": Layout(inputs.coco_of_roboflow),
    "voc": Layout(inputs.voc_of_roboflow),
    "yolo": Layout(inputs.yolo_of_ultralytics),
    "hub folder": Layout(inputs.hub_folder_with_list_per_split),
    "hub parquet": Layout(inputs.hub_images_as_parquet, {"kind": "image"}),
    "parquet": Layout(parquet_rows, {"splits": {"train": 1}}),
    "webdataset": Layout(archives),
    "webdataset of timm": Layout(inputs.web_dataset_of_timm),
    "tiny imagenet": Layout(inputs.tiny_imagenet),
    "clips": Layout(clips, {"sample_rate": 4000, "channels": 1}, is_audio=True),
    "clips as they are": Layout(clips, is_audio=True),
    "speech commands": Layout(inputs.speech_commands, is_audio=True),
    "common voice": Layout(inputs.common_voice, {"sample_rate": 8000}, is_audio=True),
}
