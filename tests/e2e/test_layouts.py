"""Every layout is converted and read by Datum, input_fn, StatisticsGen and SchemaGen."""

import io
import json
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
from tfx.types import standard_artifacts
from tfx.utils import io_utils

from components.image_example_gen import Executor
from components.runtime.beam import IN_PROCESS_RUNNER
from tests.components import runs
from tests.components.layouts.layout_files import annotation, instances, thing
from tests.make import archive, jpeg, table, write_files
from trainer_utils import input_fn

pytestmark = pytest.mark.e2e
NUMBERS = range(9)
SPLIT_OF = ["train"] * 6 + ["val"] * 3


Photos = list[bytes]
Files = dict[str, bytes | str]


def in_folders(photos: Photos) -> Files:
    return {f"{SPLIT_OF[n]}/{'ab'[n % 2]}/{n}.jpg": photo for n, photo in enumerate(photos)}


def flat(photos: Photos, folder: str = "") -> Files:
    return {f"{folder}{n}.jpg": photo for n, photo in enumerate(photos)}


def sets(kind: str) -> Files:
    """Return the image sets of Pascal VOC."""
    splits = {split: [f"{n}" for n in NUMBERS if SPLIT_OF[n] == split] for split in SPLIT_OF}
    return {f"ImageSets/{kind}/{split}.txt": "\n".join(names) for split, names in splits.items()}


def in_csv(photos: Photos) -> Files:
    rows = [f'{n}.jpg,{SPLIT_OF[n]},{"ab"[n % 2]},{n / 4},"[{n}]"' for n in NUMBERS]
    return flat(photos) | {"list.csv": "\n".join(["filename,split,label,score,tags", *rows])}


def in_automl_boxes(photos: Photos) -> Files:
    ends = [",,,,,,,,", "dog,0.1,0.2,,,0.5,0.75,,"]
    rows = [f"{SPLIT_OF[n]},{n}.jpg,{ends[n % 2]}" for n in NUMBERS]
    rows.append(f"{SPLIT_OF[1]},1.jpg,cat,0,0,,,1,1,,")
    return flat(photos) | {"list.csv": "\n".join(rows)}


def in_json_lines(photos: Photos) -> Files:
    rows = [
        {"image": f"i/{n}.jpg", "split": SPLIT_OF[n], "x": {"y": n}, "labels": ["a", "b"][: n % 3]}
        for n in NUMBERS
    ]
    return flat(photos, "i/") | {"list.jsonl": table(rows, "jsonl")}


def in_parquet(photos: Photos) -> Files:
    rows = [
        {
            "image": {"bytes": photo, "path": f"{n}.jpg"},
            "split": SPLIT_OF[n],
            "label": n % 3,
            "vector": [n / 2, 1.0],
        }
        for n, photo in enumerate(photos)
    ]
    return {"list.parquet": table(rows, "parquet", row_group_size=4)}


def in_voc(photos: Photos) -> Files:
    box = ("dog", 4, 8, 24, 30)
    texts = {f"Annotations/{n}.xml": annotation(*[box] * (n % 3), size=(48, 40)) for n in NUMBERS}
    return flat(photos, "JPEGImages/") | texts | sets("Main")


def in_coco(photos: Photos) -> Files:
    files: Files = {}
    for split in ("train", "val"):
        numbers = [n for n in NUMBERS if SPLIT_OF[n] == split]
        files |= {f"{split}2017/{n}.jpg": photos[n] for n in numbers}
        images = [{"id": n, "file_name": f"{n}.jpg", "width": 48, "height": 40} for n in numbers]
        things = [thing(n, 7, [4, 4, 12, 20]) for n in numbers[1:] for _ in "ab"]
        files[f"annotations/instances_{split}2017.json"] = instances(images, things)
    return files


def in_segmentation(photos: Photos) -> Files:
    maps: Files = {}
    for n in NUMBERS:
        label_map = Image.frombytes("P", (48, 40), bytes([n]) * 48 * 40)
        label_map.putpalette(bytes(range(255, -1, -1)) * 3)
        stream = io.BytesIO()
        label_map.save(stream, "PNG")
        maps[f"SegmentationClass/{n}.png"] = stream.getvalue()
    return flat(photos, "JPEGImages/") | maps | sets("Segmentation")


def in_tar(photos: Photos) -> Files:
    files: Files = {}
    for split in ("train", "val"):
        members: dict[str, bytes] = {}
        for n in (n for n in NUMBERS if SPLIT_OF[n] == split):
            sidecar = json.dumps({"score": n / 2}).encode()
            members |= {f"{n}.jpg": photos[n], f"{n}.cls": b"%d" % n, f"{n}.json": sidecar}
        files[f"{split}-0.tar"] = archive(members)
    return files


BOXES = {"xmin", "xmax", "ymin", "ymax", "area", "labels"}
LAYOUTS: dict[str, tuple[Callable[[Photos], Files], set[str]]] = {
    "folder": (in_folders, {"label"}),
    "csv": (in_csv, {"label", "score", "tags"}),
    "boxes": (in_automl_boxes, BOXES),
    "jsonl": (in_json_lines, {"labels", "x.y"}),
    "parquet": (in_parquet, {"label", "vector"}),
    "voc": (in_voc, BOXES | {"pose", "is_truncated", "labels_difficult"}),
    "coco": (in_coco, BOXES | {"is_crowd", "image_id"}),
    "segmentation": (in_segmentation, {"label"}),
    "tar": (in_tar, {"label", "score"}),
}

# Single values, lists and boxes of numbers and texts, whose encoding does not depend on the layout.
WITH_STATISTICS = (in_csv, in_parquet, in_coco)


def comparable(examples: Any) -> dict[bytes, dict[str, Any]]:
    """Return the values of each example by filename, arrays as nested lists."""
    return {
        e["filename"]: {name: np.asarray(value).tolist() for name, value in e.items()}
        for e in examples
    }


def statistics_and_schema(uri: Path, target: Path) -> set[str]:
    """Run StatisticsGen and SchemaGen, and return the features in the schema."""
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


def convert(base: Path, target: Path) -> standard_artifacts.Examples:
    """Run ImageExampleGen as TFX does."""
    return runs.run(Executor, base, target)


@pytest.mark.parametrize(("make", "columns"), LAYOUTS.values(), ids=LAYOUTS)
def test_datum_and_input_fn_read_a_layout_alike(tmp_path, make, columns, subtests):
    from datum.reader import load

    write_files(tmp_path / "in", make([jpeg(n, size=(48, 40)) for n in NUMBERS]))
    artifact = convert(tmp_path / "in", tmp_path / "out")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert {s: e["records"] for s, e in manifest["splits"].items()} == {"train": 6, "eval": 3}
    assert manifest["total"]["found"] == manifest["total"]["written"] == 9
    everything = {"image", "filename", "height", "width", "channels"} | columns
    loaded = load(artifact.uri)
    loaded.dataset_configs.batch_size_val = 1
    for name in ("train", "eval"):
        with subtests.test(name=name):
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


def test_frame_is_converted_and_cached(tmp_path, monkeypatch):
    import pipelines

    write_files(tmp_path / "work", flat([*map(jpeg, NUMBERS)]))
    monkeypatch.chdir(tmp_path / "work")
    frame = pd.DataFrame({"path": [f"{n}.jpg" for n in NUMBERS], "age": [n / 2 for n in NUMBERS]})
    uris = [pipelines.convert(frame, "../out", num_shards=1) for _ in range(2)]
    assert uris[0] == uris[1]
    ages = {
        e["filename"].decode(): float(e["age"])
        for e in input_fn(uris[0], "train+eval", batch_size=None).as_numpy_iterator()
    }
    assert ages == {f"{number}.jpg": number / 2 for number in NUMBERS}


@pytest.mark.parametrize(
    ("make", "settings"), [(in_voc, {"box_frame": "stored"}), (in_segmentation, {})]
)
def test_images_are_rotated_with_their_annotations(tmp_path, make, settings):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = [jpeg(n, size=(48, 40), exif=exif) for n in NUMBERS]
    write_files(tmp_path / "in", make(turned))
    uri = runs.run(Executor, tmp_path / "in", tmp_path / "out", **settings).uri
    shapes = [e["image"].shape for e in input_fn(uri, "train", batch_size=None)]
    assert shapes == [(48, 40, 3)] * 6
    conversions = json.loads((tmp_path / "out/manifest.json").read_text())["conversions"]
    assert conversions == (
        {"ORIENTATION": 18, "PALETTE": 9}  # images and their label maps
        if make is in_segmentation
        else {"BOXES_ROTATED": 6, "BOX_FRAME_GIVEN": 6, "ORIENTATION": 9}
    )
