"""Every layout, converted: read by Datum and by input_fn, taken by StatisticsGen and SchemaGen."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tfx.components.schema_gen.executor import Executor as SchemaGen
from tfx.components.statistics_gen.executor import Executor as StatisticsGen
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import io_utils, proto_utils

from components.common.beam import IN_PROCESS_RUNNER
from components.image_example_gen import Executor
from trainer_utils import input_fn

pytestmark = pytest.mark.e2e
NUMBERS = range(9)
SPLIT_OF = ["train"] * 6 + ["val"] * 3


def encoded(pixels: np.ndarray, kind: str = "JPEG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def put(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def make_folder(base: Path, photos: list[bytes]) -> None:
    for number, photo in enumerate(photos):
        put(base / SPLIT_OF[number] / "ab"[number % 2] / f"{number}.jpg", photo)


def make_csv(base: Path, photos: list[bytes]) -> None:
    rows = ["filename,split,label,score,tags"]
    for number, photo in enumerate(photos):
        put(base / f"{number}.jpg", photo)
        rows.append(f'{number}.jpg,{SPLIT_OF[number]},{"ab"[number % 2]},{number / 4},"[{number}]"')
    put(base / "list.csv", "\n".join(rows))


def make_automl_boxes(base: Path, photos: list[bytes]) -> None:
    rows = []
    for number, photo in enumerate(photos):
        put(base / f"{number}.jpg", photo)
        corners = [",,,,,,,", "0.1,0.2,,,0.5,0.75,,"][number % 2]
        rows.append(f"{SPLIT_OF[number]},{number}.jpg,{['', 'dog'][number % 2]},{corners}")
    put(base / "list.csv", "\n".join([*rows, f"{SPLIT_OF[1]},1.jpg,cat,0,0,,,1,1,,"]))


def make_jsonl(base: Path, photos: list[bytes]) -> None:
    lines = []
    for number, photo in enumerate(photos):
        put(base / "images" / f"{number}.jpg", photo)
        line = {"image": f"images/{number}.jpg", "split": SPLIT_OF[number], "x": {"y": number}}
        lines.append(json.dumps({**line, "labels": ["a", "b"][: number % 3]}))
    put(base / "list.jsonl", "\n".join(lines))


def make_parquet(base: Path, photos: list[bytes]) -> None:
    base.mkdir(parents=True)
    frame = pd.DataFrame(
        {
            "image": [{"bytes": p, "path": f"{n}.jpg"} for n, p in enumerate(photos)],
            "split": SPLIT_OF,
            "label": [number % 3 for number in NUMBERS],
            "vector": [[number / 2, 1.0] for number in NUMBERS],
        }
    )
    frame.to_parquet(base / "list.parquet", row_group_size=4)


def make_voc(base: Path, photos: list[bytes]) -> None:
    for number, photo in enumerate(photos):
        put(base / "JPEGImages" / f"{number}.jpg", photo)
        box = "<bndbox><xmin>4</xmin><ymin>8</ymin><xmax>24</xmax><ymax>30</ymax></bndbox>"
        thing = f"<object><name>dog</name><pose>Left</pose>{box}</object>" * (number % 3)
        size = "<size><width>48</width><height>40</height></size>"
        put(base / "Annotations" / f"{number}.xml", f"<annotation>{size}{thing}</annotation>")
    for split in ("train", "val"):
        names = [str(number) for number in NUMBERS if SPLIT_OF[number] == split]
        put(base / f"ImageSets/Main/{split}.txt", "\n".join(names))


def make_coco(base: Path, photos: list[bytes]) -> None:
    for split in ("train", "val"):
        numbers = [number for number in NUMBERS if SPLIT_OF[number] == split]
        for number in numbers:
            put(base / f"{split}2017" / f"{number}.jpg", photos[number])
        images = [{"id": n, "file_name": f"{n}.jpg", "width": 48, "height": 40} for n in numbers]
        things = [
            {"image_id": n, "category_id": 1, "bbox": [4, 4, 12, 20]}
            for n in numbers[1:]
            for _ in "ab"
        ]
        value = {
            "images": images,
            "annotations": things,
            "categories": [{"id": 1, "name": "dog"}],
        }
        put(base / f"annotations/instances_{split}2017.json", json.dumps(value))


def make_segmentation(base: Path, photos: list[bytes]) -> None:
    for number, photo in enumerate(photos):
        put(base / "JPEGImages" / f"{number}.jpg", photo)
        ids = Image.fromarray(np.full((40, 48), number, np.uint8), "L")
        label_map = Image.frombytes("P", ids.size, ids.tobytes())
        label_map.putpalette(bytes(range(255, -1, -1)) * 3)
        stream = io.BytesIO()
        label_map.save(stream, "PNG")
        put(base / "SegmentationClass" / f"{number}.png", stream.getvalue())
    for split in ("train", "val"):
        names = [str(number) for number in NUMBERS if SPLIT_OF[number] == split]
        put(base / f"ImageSets/Segmentation/{split}.txt", "\n".join(names))


def make_tar(base: Path, photos: list[bytes]) -> None:
    base.mkdir(parents=True)
    for split in ("train", "val"):
        with tarfile.open(base / f"{split}-0.tar", "w") as archive:
            for number in NUMBERS:
                if SPLIT_OF[number] != split:
                    continue
                sidecar = json.dumps({"score": number / 2}).encode()
                files = {"jpg": photos[number], "cls": b"%d" % number, "json": sidecar}
                for extension, content in files.items():
                    member = tarfile.TarInfo(f"{number}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))


LAYOUTS: dict[str, tuple[Callable[[Path, list[bytes]], None], set[str]]] = {
    "folder": (make_folder, {"label"}),
    "csv": (make_csv, {"label", "score", "tags"}),
    "boxes": (make_automl_boxes, {"xmin", "xmax", "ymin", "ymax", "area", "labels"}),
    "jsonl": (make_jsonl, {"labels", "x.y"}),
    "parquet": (make_parquet, {"label", "vector"}),
    "voc": (
        make_voc,
        {"xmin", "xmax", "ymin", "ymax", "area", "labels", "pose"}
        | {"is_truncated", "labels_difficult"},
    ),
    "coco": (
        make_coco,
        {"xmin", "xmax", "ymin", "ymax", "area", "labels", "is_crowd", "image_id"},
    ),
    "segmentation": (make_segmentation, {"label"}),
    "tar": (make_tar, {"label", "score"}),
}

# Numbers and texts, one and many, and those of boxes: what is encoded alike from any layout.
WITH_STATISTICS = (make_csv, make_parquet, make_coco)


def comparable(examples: Any) -> dict[bytes, dict[str, Any]]:
    """Each example's values by filename, arrays as nested lists."""
    return {
        e["filename"]: {name: np.asarray(value).tolist() for name, value in e.items()}
        for e in examples
    }


def statistics_and_schema(uri: Path, target: Path) -> set[str]:
    """The features that SchemaGen sees in what StatisticsGen made."""
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=[f"--runner={IN_PROCESS_RUNNER}"], tmp_dir=str(target), unique_id="1"
    )
    examples = standard_artifacts.Examples()
    examples.uri, examples.split_names = str(uri), '["train"]'
    statistics, schema = standard_artifacts.ExampleStatistics(), standard_artifacts.Schema()
    statistics.uri, schema.uri = str(target / "statistics"), str(target / "schema")
    StatisticsGen(context).Do(
        {"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"}
    )
    SchemaGen().Do(
        {"statistics": [statistics]},
        {"schema": [schema]},
        {"infer_feature_shape": 1, "exclude_splits": "[]"},
    )
    return {f.name for f in io_utils.SchemaReader().read(f"{schema.uri}/schema.pbtxt").feature}


def convert(base: Path, target: Path, **options: Any) -> standard_artifacts.Examples:
    """Runs ImageExampleGen as TFX does."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(target)
    split = example_gen_pb2.Input.Split(name="all", pattern="*")
    properties = {
        "input_base": str(base),
        "input_config": proto_utils.proto_to_json(example_gen_pb2.Input(splits=[split])),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
        **options,
    }
    Executor().Do({}, {"examples": [artifact]}, properties)
    return artifact


@pytest.mark.parametrize(("make", "columns"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_read_alike_by_datum_and_input_fn(tmp_path, photos, make, columns):
    from datum.reader import load

    make(tmp_path / "in", [encoded(photo) for photo in photos[: len(NUMBERS)]])
    artifact = convert(tmp_path / "in", tmp_path / "out")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert {s: e["records"] for s, e in manifest["splits"].items()} == {"train": 6, "eval": 3}
    assert manifest["total"]["found"] == manifest["total"]["written"] == 9
    everything = {"image", "filename", "height", "width", "channels"} | columns
    loaded = load(artifact.uri)
    loaded.dataset_configs.batch_size_val = 1
    for name in ("train", "eval"):
        ours = comparable(input_fn(artifact.uri, name, batch_size=None).as_numpy_iterator())
        theirs = comparable(
            {feature: value.numpy()[0] for feature, value in example.items()}
            for example in loaded.val_fn(name)
        )
        assert ours == theirs
        assert all(example.keys() == everything for example in ours.values())
    (batch,) = input_fn(artifact.uri, "train", batch_size=6).as_numpy_iterator()
    assert all(len(value) == 6 for value in batch.values())
    if make in WITH_STATISTICS:
        assert statistics_and_schema(tmp_path / "out", tmp_path / "tfx") == everything


def test_a_label_map_keeps_its_ids(tmp_path, photos):
    make_segmentation(tmp_path / "in", [encoded(photo) for photo in photos[: len(NUMBERS)]])
    uri = convert(tmp_path / "in", tmp_path / "out").uri
    for example in input_fn(uri, "train", batch_size=None).as_numpy_iterator():
        number = int(example["filename"].split(b"/")[-1].split(b".")[0])
        assert set(example["label"].flatten()) == {number}


def test_a_frame_is_converted_and_kept_in_the_cache(tmp_path, photos, monkeypatch):
    import pipelines

    for number in NUMBERS:
        put(tmp_path / "work" / f"{number}.jpg", encoded(photos[number]))
    monkeypatch.chdir(tmp_path / "work")
    frame = pd.DataFrame({"path": [f"{n}.jpg" for n in NUMBERS], "age": [n / 2 for n in NUMBERS]})
    uris = [pipelines.convert(frame, "../out", num_shards=1) for _ in range(2)]
    assert uris[0] == uris[1]
    ages = {
        e["filename"].decode(): float(e["age"])
        for e in input_fn(uris[0], "train+eval", batch_size=None).as_numpy_iterator()
    }
    assert ages == {f"{number}.jpg": number / 2 for number in NUMBERS}


@pytest.mark.parametrize("make", [make_voc, make_coco, make_segmentation, make_automl_boxes])
def test_images_with_boxes_or_maps_are_not_turned(tmp_path, photos, make):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = []
    for photo in photos[: len(NUMBERS)]:
        stream = io.BytesIO()
        Image.fromarray(photo).save(stream, "JPEG", exif=exif)
        turned.append(stream.getvalue())
    make(tmp_path / "in", turned)
    uri = convert(tmp_path / "in", tmp_path / "out").uri
    shapes = [e["image"].shape for e in input_fn(uri, "train", batch_size=None)]
    assert shapes == [(40, 48, 3)] * 6
    assert json.loads((tmp_path / "out/manifest.json").read_text())["conversions"] == (
        {"PALETTE": 9} if make is make_segmentation else {}
    )
