"""ImageExampleGen through its executor: what it publishes against TensorFlow's reader and PIL."""

import datetime
import functools
import hashlib
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image
from sklearn.datasets import load_sample_images
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import proto_utils

from components import ImageExampleGen
from components.example_gen import file_transforms
from components.image_example_gen.executor import Executor
from trainer_utils import input_fn
from trainer_utils.format import ConfigError, DatasetError, InputError

IN_PROCESS = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@functools.cache
def sample_photos() -> list[Image.Image]:
    """The two photos that scikit-learn ships, 640 x 427 RGB."""
    return [Image.fromarray(pixels) for pixels in load_sample_images().images]


def photo(
    number: int, kind: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (40, 24)
) -> bytes:
    """An encoded cut of a real photo; another number gives another cut."""
    x, y = number % 560, number // 560
    cut = sample_photos()[number % 2].crop((x, y, x + size[0], y + size[1])).convert(mode)
    stream = io.BytesIO()
    cut.save(stream, kind)
    return stream.getvalue()


def write_tree(base: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return base


def write_photos(base: Path, *names: str) -> Path:
    """Writes a different photo under each name."""
    return write_tree(base, {name: photo(number) for number, name in enumerate(names)})


def input_config(**patterns: str) -> str:
    splits = [
        example_gen_pb2.Input.Split(name=name, pattern=pattern)
        for name, pattern in patterns.items()
    ]
    return proto_utils.proto_to_json(example_gen_pb2.Input(splits=splits))


def output_config(*shares: tuple[str, int], partition_feature_name: str = "") -> str:
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share) for name, share in shares
    ]
    split_config = example_gen_pb2.SplitConfig(
        splits=splits, partition_feature_name=partition_feature_name
    )
    return proto_utils.proto_to_json(example_gen_pb2.Output(split_config=split_config))


def run(
    base: Path | str,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **properties: object,
) -> standard_artifacts.Examples:
    """Runs the executor as TFX does; `between` is called after listing and before reading."""

    def make_pipeline() -> beam.Pipeline:
        between()
        return beam.Pipeline(runner=IN_PROCESS)

    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    defaults: dict[str, object] = {
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
    }
    executor = Executor(BaseBeamExecutor.Context(make_beam_pipeline_fn=make_pipeline))
    executor.Do({}, {"examples": [artifact]}, {"input_base": str(base), **defaults, **properties})
    return artifact


def convert(
    base: Path | str,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **properties: object,
) -> dict:
    """Runs the executor; returns the manifest."""
    run(base, uri, between=between, **properties)
    return json.loads((uri / "manifest.json").read_text())


def shards(uri: Path, split: str) -> list[Path]:
    return sorted((uri / f"Split-{split}").iterdir())


def read(uri: Path) -> dict[str, list[tf.train.Example]]:
    """The examples of each split, in order, by TensorFlow's own reader."""
    return {
        folder.name.removeprefix("Split-"): [
            tf.train.Example.FromString(record.numpy())
            for path in shards(uri, folder.name.removeprefix("Split-"))
            for record in tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix else "")
        ]
        for folder in sorted(uri.glob("Split-*"))
    }


def value(example: tf.train.Example, name: str) -> Any:
    """The bytes or int of a feature that holds one."""
    feature = example.features.feature[name]
    (only,) = getattr(feature, feature.WhichOneof("kind")).value
    return only


def placed(uri: Path) -> dict[str, tuple[str, str | None]]:
    """Split and label of every example, by filename."""
    vocabulary = uri / "vocab" / "label.txt"
    labels = vocabulary.read_text().split("\n") if vocabulary.exists() else []
    found: dict[str, tuple[str, str | None]] = {}
    for split, examples in read(uri).items():
        for example in examples:
            name = os.fsdecode(value(example, "filename"))
            assert name not in found, "in the dataset twice"
            has_label = "label" in example.features.feature
            found[name] = (split, labels[value(example, "label")] if has_label else None)
    return found


def flat(uri: Path) -> list[tf.train.Example]:
    return [example for examples in read(uri).values() for example in examples]


def splits_of(uri: Path) -> dict[str, str]:
    return {filename: split for filename, (split, _) in placed(uri).items()}


def labels_of(uri: Path) -> dict[str, str | None]:
    return {filename: label for filename, (_, label) in placed(uri).items()}


def rejects_in(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def accounting(entry: dict) -> dict[str, int]:
    return {name: entry[name] for name in ("found", "written", "rejected", "skipped")}


# Layouts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [
        {
            "train/cat/1.jpg": ("train", "cat"),
            "train/dog/2.jpg": ("train", "dog"),
            "eval/dog/1.jpg": ("eval", "dog"),
            "test/emu/1.jpg": ("test", "emu"),
        },
        {"train/1.jpg": ("train", None), "test/1.jpg": ("test", None)},
        {
            "train/cat/2024/may/1.jpg": ("train", "cat"),
            "train/cat/1.jpg": ("train", "cat"),
            "test/dog/a/b/c/d/1.jpg": ("test", "dog"),
        },
        {"train/train/1.jpg": ("train", "train"), "train/test/1.jpg": ("train", "test")},
    ],
    ids=["split and class", "split", "nested below the class", "classes named like splits"],
)
def test_split_folders_give_split_and_label(tmp_path, expected):
    convert(write_photos(tmp_path / "in", *expected), tmp_path / "out")
    assert placed(tmp_path / "out") == expected


@pytest.mark.parametrize(
    "expected",
    [
        {"cat/1.jpg": "cat", "dog/2.jpg": "dog", "dog/3.jpg": "dog"},
        {"cat/2024/may/1.jpg": "cat", "cat/2.jpg": "cat", "dog/x/3.jpg": "dog"},
        {"train/1.jpg": "train", "tram/2.jpg": "tram"},
        {"photo.jpg/1.jpg": "photo.jpg", "scan.png/2.jpg": "scan.png"},
        {"1.jpg": None, "2.jpg": None, "3": None},
    ],
    ids=["classes", "nested", "a class called train", "folders named like files", "flat"],
)
def test_class_folders_give_the_label_and_a_hash_the_split(tmp_path, expected):
    manifest = convert(write_photos(tmp_path / "in", *expected), tmp_path / "out")
    assert labels_of(tmp_path / "out") == expected
    assert manifest["split_order"] == ["train", "eval"]


SPELLINGS = {
    "train": ["train", "TRAIN", "Training"],
    "eval": ["eval", "Evaluation", "val", "VALID", "validation", "VALIDATION", "validate", "dev"],
    "test": ["test", "Testing", "TEST"],
}


@pytest.mark.parametrize(
    ("spelling", "split"),
    [(spelling, split) for split in SPELLINGS for spelling in SPELLINGS[split]],
)
def test_a_split_may_be_spelt_in_the_usual_ways(tmp_path, spelling, split):
    convert(write_photos(tmp_path / "tree", f"{spelling}/cat/1.jpg"), tmp_path / "from-folders")
    listed = write_photos(tmp_path / "listed", "1.jpg")
    (listed / "list.csv").write_text(f"{spelling},1.jpg,cat\n")
    convert(listed, tmp_path / "from-csv")
    assert placed(tmp_path / "from-folders") == {f"{spelling}/cat/1.jpg": (split, "cat")}
    assert placed(tmp_path / "from-csv") == {"1.jpg": (split, "cat")}


def test_two_spellings_of_a_split_are_one_split(tmp_path):
    convert(write_photos(tmp_path / "in", "val/1.jpg", "dev/2.jpg"), tmp_path / "out")
    assert splits_of(tmp_path / "out") == {"val/1.jpg": "eval", "dev/2.jpg": "eval"}


ROWS = "TRAIN,1.jpg,cat\nVALIDATION,more/2.jpg,dog\nTEST,3.jpg,cat\n"
OF_ROWS = {"1.jpg": ("train", "cat"), "more/2.jpg": ("eval", "dog"), "3.jpg": ("test", "cat")}


CSV_FILES = {
    "no header": (ROWS, OF_ROWS),
    "header": ("split,image_uri,label\n" + ROWS, OF_ROWS),
    "header in capitals": ("SPLIT,Image_URI,Label\n" + ROWS, OF_ROWS),
    "byte order mark": ("\ufeffsplit,image_uri,label\n" + ROWS, OF_ROWS),
    "CRLF": (ROWS.replace("\n", "\r\n"), OF_ROWS),
    "blank lines": (ROWS.replace("\n", "\n\n") + "\n\n", OF_ROWS),
    "spaces": (ROWS.replace(",", " , "), OF_ROWS),
    "no newline at the end": (ROWS.rstrip("\n"), OF_ROWS),
    "absolute": (
        "TRAIN,{base}/1.jpg,cat\nTEST,{base}/more/2.jpg,dog\n",
        {"1.jpg": ("train", "cat"), "more/2.jpg": ("test", "dog")},
    ),
    "relative with dots": ("TRAIN,./more/../1.jpg,cat\n", {"1.jpg": ("train", "cat")}),
    "other columns": ("label,image_uri,split\ncat,1.jpg,TEST\n", {"1.jpg": ("test", "cat")}),
    "quotes": ('TRAIN,"1.jpg","cat, or ""dog"""\n', {"1.jpg": ("train", 'cat, or "dog"')}),
    "no labels": (
        "TRAIN,1.jpg,\nTEST,3.jpg,\n",
        {"1.jpg": ("train", None), "3.jpg": ("test", None)},
    ),
}


@pytest.mark.parametrize(("text", "expected"), CSV_FILES.values(), ids=CSV_FILES)
def test_a_csv_names_split_and_label_of_each_photo(tmp_path, text, expected):
    base = write_photos(tmp_path / "in", "1.jpg", "more/2.jpg", "3.jpg", "not-listed.jpg")
    (base / "list.csv").write_text(text.format(base=base), "utf-8", newline="")
    manifest = convert(base, tmp_path / "out")
    assert placed(tmp_path / "out") == expected
    assert manifest["total"]["found"] == len(expected)


def test_photos_of_a_csv_are_relative_to_its_folder_and_filenames_to_the_base(tmp_path):
    base = write_photos(tmp_path / "in", "lists/1.jpg", "2.jpg")
    (base / "lists" / "list.csv").write_text("TRAIN,1.jpg,cat\nTEST,../2.jpg,dog\n")
    convert(base, tmp_path / "out", input_config=input_config(all="lists/list.csv"))
    assert placed(tmp_path / "out") == {"lists/1.jpg": ("train", "cat"), "2.jpg": ("test", "dog")}


@pytest.mark.parametrize("spelling", ["in", "./in/", "{parent}/in/", "{parent}/./in", "link"])
def test_absolute_paths_in_a_csv_are_found_however_the_input_base_is_spelt(
    tmp_path, monkeypatch, spelling
):
    base = write_photos(tmp_path / "in", "1.jpg", "more/2.jpg")
    (tmp_path / "link").symlink_to("in")
    (base / "list.csv").write_text(f"TRAIN,{base}/1.jpg,cat\nTEST,{base}/more/2.jpg,dog\n")
    monkeypatch.chdir(tmp_path)
    convert(spelling.format(parent=tmp_path), tmp_path / "out", max_reject_fraction=0)
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat"), "more/2.jpg": ("test", "dog")}


def test_the_input_base_may_be_the_csv_itself(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    (base / "some.csv").write_text("TRAIN,1.jpg,cat\n")
    (base / "other.csv").write_text("TEST,2.jpg,dog\n")
    convert(base / "some.csv", tmp_path / "out")
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat")}


@pytest.mark.parametrize("word", ["UNASSIGNED", "unassigned", ""])
def test_a_hash_assigns_the_rows_of_a_csv_that_name_no_split(tmp_path, word):
    names = [f"{number}.jpg" for number in range(40)]
    base = write_photos(tmp_path / "in", *names, "own.jpg")
    rows = "".join(f"{word},{name},cat\n" for name in names)
    (base / "list.csv").write_text(f"split,image_uri,label\n{rows}TEST,own.jpg,dog\n")
    convert(base, tmp_path / "out")
    splits = splits_of(tmp_path / "out")
    assert splits.pop("own.jpg") == "test"
    assert splits.keys() == set(names)
    assert set(splits.values()) == {"train", "eval"}


def test_layout_folder_takes_a_csv_for_a_file_like_any_other(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    (base / "list.csv").write_text("TRAIN,1.jpg,cat\n")
    convert(base, tmp_path / "out", layout="folder", max_reject_fraction=0.5)
    assert labels_of(tmp_path / "out") == {"1.jpg": None, "2.jpg": None}
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == ("list.csv", "NOT_AN_IMAGE")


# Splits -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """300 photos in 12 classes."""
    names = [f"class-{number % 12:02d}/{number:03d}.jpg" for number in range(300)]
    return write_photos(tmp_path_factory.mktemp("many"), *names)


# Bounds: five standard deviations of the binomial distribution either side of its mean.
@pytest.mark.parametrize(
    ("config", "bounds"),
    [
        ("{}", {"train": (159, 241), "eval": (59, 141)}),
        (
            output_config(("train", 8), ("eval", 1), ("test", 1)),
            {"train": (205, 275), "eval": (4, 56), "test": (4, 56)},
        ),
        (output_config(("b", 1), ("a", 3)), {"b": (37, 113), "a": (187, 263)}),
        (output_config(("all", 5)), {"all": (300, 300)}),
    ],
    ids=["default 2:1", "8:1:1", "own names", "one"],
)
def test_hash_splits_have_their_shares(many, tmp_path, config, bounds):
    artifact = run(many, tmp_path, output_config=config)
    counts = Counter(splits_of(tmp_path).values())
    assert counts.total() == 300
    assert counts.keys() == bounds.keys()
    assert all(least <= counts[split] <= most for split, (least, most) in bounds.items()), counts
    assert artifact_utils.decode_split_names(artifact.split_names) == list(bounds)


def test_a_hash_split_mixes_the_classes(many, tmp_path):
    convert(many, tmp_path)
    of_split: dict[str, set[str | None]] = {"train": set(), "eval": set()}
    for split, label in placed(tmp_path).values():
        of_split[split].add(label)
    assert len(of_split["train"]) == len(of_split["eval"]) == 12


def test_partitioned_by_label_a_class_is_whole_in_one_split(many, tmp_path):
    shares = (("train", 2), ("eval", 1))
    config = output_config(*shares, partition_feature_name="label")
    convert(many, tmp_path, output_config=config)
    splits_by_label: dict[str | None, set[str]] = {}
    for split, label in placed(tmp_path).values():
        splits_by_label.setdefault(label, set()).add(split)
    assert len(splits_by_label) == 12
    assert all(len(splits) == 1 for splits in splits_by_label.values())
    assert set.union(*splits_by_label.values()) == {"train", "eval"}


def test_a_photo_keeps_its_split_when_others_come_and_go(many, tmp_path):
    convert(many, tmp_path / "before")
    changed = shutil.copytree(many, tmp_path / "changed")
    shutil.rmtree(changed / "class-00")
    write_photos(changed, *(f"class-20/{number}.jpg" for number in range(30)))
    convert(changed, tmp_path / "after")
    before, after = splits_of(tmp_path / "before"), splits_of(tmp_path / "after")
    common = before.keys() & after.keys()
    assert len(common) == 275
    assert {name: before[name] for name in common} == {name: after[name] for name in common}


def test_another_seed_assigns_other_splits(many, tmp_path):
    convert(many, tmp_path / "0", seed=0)
    convert(many, tmp_path / "1", seed=1)
    assert splits_of(tmp_path / "0") != splits_of(tmp_path / "1")


TREE = ["a/cat/1.jpg", "a/dog/2.jpg", "b/dog/3.jpg", "b/emu/x/4.jpg", "c/5.jpg", "c/6.jpg"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (
            {"train": "a/*", "eval": "b/*"},
            {
                "a/cat/1.jpg": ("train", "cat"),
                "a/dog/2.jpg": ("train", "dog"),
                "b/dog/3.jpg": ("eval", "dog"),
                "b/emu/x/4.jpg": ("eval", "emu"),
            },
        ),
        ({"one": "c/5.jpg", "two": "c/6*"}, {"c/5.jpg": ("one", None), "c/6.jpg": ("two", None)}),
        (
            {"holdout": "a/dog", "other": "b/d?g"},
            {"a/dog/2.jpg": ("holdout", None), "b/dog/3.jpg": ("other", "dog")},
        ),
    ],
    ids=["folders", "files", "a folder itself"],
)
def test_each_pattern_of_input_config_is_a_split(tmp_path, patterns, expected):
    manifest = convert(
        write_photos(tmp_path / "in", *TREE),
        tmp_path / "out",
        input_config=input_config(**patterns),
    )
    assert placed(tmp_path / "out") == expected
    assert set(manifest["split_order"]) == set(patterns)


def test_one_pattern_of_input_config_leaves_the_splits_to_the_hash(tmp_path):
    base = write_photos(tmp_path / "in", *TREE)
    manifest = convert(base, tmp_path / "out", input_config=input_config(all="a/*"))
    assert labels_of(tmp_path / "out") == {"a/cat/1.jpg": "cat", "a/dog/2.jpg": "dog"}
    assert manifest["split_order"] == ["train", "eval"]


def days(year: int, month: int, day: int) -> int:
    return (datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days


def static_range(span: int) -> str:
    fixed = range_config_pb2.StaticRange(start_span_number=span, end_span_number=span)
    return proto_utils.proto_to_json(range_config_pb2.RangeConfig(static_range=fixed))


@pytest.mark.parametrize(
    ("folders", "pattern", "config", "taken", "span", "version"),
    [
        (["span-1", "span-3", "span-2"], "span-{SPAN}", None, "span-3", 3, None),
        (["span-9", "span-10"], "span-{SPAN}", None, "span-10", 10, None),
        (["span-1", "span-3", "span-2"], "span-{SPAN}", static_range(1), "span-1", 1, None),
        (["span-07", "span-06"], "span-{SPAN:2}", None, "span-07", 7, None),
        (["s1/v1", "s2/v1", "s2/v10", "s2/v9"], "s{SPAN}/v{VERSION}", None, "s2/v10", 2, 10),
        (["s1/v5", "s2/v1"], "s{SPAN}/v{VERSION}", static_range(1), "s1/v5", 1, 5),
        (
            ["2024-12-31", "2025-01-02", "2025-01-01"],
            "{YYYY}-{MM}-{DD}",
            None,
            "2025-01-02",
            days(2025, 1, 2),
            None,
        ),
        (
            ["2024-12-31", "2025-01-02"],
            "{YYYY}-{MM}-{DD}",
            static_range(days(2024, 12, 31)),
            "2024-12-31",
            days(2024, 12, 31),
            None,
        ),
    ],
)
def test_without_a_driver_the_executor_finds_the_span(
    tmp_path, folders, pattern, config, taken, span, version
):
    names = [f"{folder}/{part}/cat/1.jpg" for folder in folders for part in ("x", "y")]
    artifact = run(
        write_photos(tmp_path / "in", *names),
        tmp_path / "out",
        input_config=input_config(train=f"{pattern}/x/*", eval=f"{pattern}/y/*"),
        range_config=config,
    )
    assert placed(tmp_path / "out") == {
        f"{taken}/x/cat/1.jpg": ("train", "cat"),
        f"{taken}/y/cat/1.jpg": ("eval", "cat"),
    }
    assert artifact.get_int_custom_property("span") == span
    assert artifact.has_custom_property("version") == (version is not None)
    assert version is None or artifact.get_int_custom_property("version") == version


# Examples -----------------------------------------------------------------------------------------

KINDS = {
    "grey.jpg": photo(1, "JPEG", "L", (33, 21)),
    "rgb.jpg": photo(2, "JPEG", "RGB", (21, 33)),
    "grey.png": photo(3, "PNG", "L", (16, 8)),
    "rgb.png": photo(4, "PNG", "RGB", (8, 16)),
    "rgba.png": photo(5, "PNG", "RGBA", (9, 7)),
}


@pytest.mark.parametrize("settings", [{}, {"target_shard_bytes": 2000}, {"compression": "gzip"}])
def test_each_photo_is_in_one_split_and_once_byte_for_byte(tmp_path, settings):
    files = {f"c{number % 3}/{number}.jpg": photo(number) for number in range(40)}
    files |= {f"c0/{name}": data for name, data in KINDS.items()}
    manifest = convert(write_tree(tmp_path / "in", files), tmp_path / "out", **settings)
    stored = [
        (os.fsdecode(value(example, "filename")), sha256(value(example, "image")))
        for example in flat(tmp_path / "out")
    ]
    assert sorted(stored) == sorted((name, sha256(data)) for name, data in files.items())
    assert manifest["total"]["written"] == 45


def test_every_feature_has_its_type_and_the_value_that_pil_and_tensorflow_see(tmp_path):
    files = {f"{label}/{name}": data for label in ("b", "a") for name, data in KINDS.items()}
    convert(write_tree(tmp_path / "in", files), tmp_path / "out")
    seen = 0
    for example in [
        example for examples in read(tmp_path / "out").values() for example in examples
    ]:
        kinds = {name: f.WhichOneof("kind") for name, f in example.features.feature.items()}
        assert kinds == {
            "image": "bytes_list",
            "filename": "bytes_list",
            "height": "int64_list",
            "width": "int64_list",
            "channels": "int64_list",
            "label": "int64_list",
        }
        name = value(example, "filename").decode()
        size = tuple(value(example, feature) for feature in ("height", "width", "channels"))
        image = Image.open(io.BytesIO(files[name]))
        assert size == (image.height, image.width, len(image.getbands()))
        assert tf.io.decode_image(value(example, "image")).shape == size
        assert value(example, "label") == {"a": 0, "b": 1}[name.split("/")[0]]
        seen += 1
    assert seen == 10


def encoded(kind: str, mode: str, **options: object) -> bytes:
    stream = io.BytesIO()
    cut = sample_photos()[0].crop((0, 0, 30, 20)).convert(mode)
    cut.save(stream, kind, **options)
    return stream.getvalue()


ENCODINGS = {
    "progressive JPEG": encoded("JPEG", "RGB", progressive=True),
    "JPEG with a thumbnail behind, as phones write": encoded(
        "MPO", "RGB", save_all=True, append_images=[sample_photos()[1].resize((16, 12))]
    ),
    "JPEG with bytes behind": encoded("JPEG", "RGB") + b"bytes",
    "PNG with bytes behind": encoded("PNG", "RGB") + b"bytes",
    "interlaced PNG": encoded("PNG", "RGB", interlace=1),
    "PNG of two colours": encoded("PNG", "1"),
    "grey PNG with alpha": encoded("PNG", "LA"),
    "PNG with a palette": encoded("PNG", "P"),
    "PNG with a palette and a transparent colour": encoded("PNG", "P", transparency=3),
}


@pytest.mark.parametrize("data", ENCODINGS.values(), ids=ENCODINGS)
def test_the_size_is_the_one_that_tensorflow_decodes(tmp_path, data):
    convert(write_tree(tmp_path / "in", {"1": data}), tmp_path / "out")
    (example,) = flat(tmp_path / "out")
    size = tuple(value(example, feature) for feature in ("height", "width", "channels"))
    assert size == tf.io.decode_image(value(example, "image")).shape
    assert size[:2] == (20, 30)


def test_without_classes_there_is_no_label(tmp_path):
    convert(write_photos(tmp_path / "in", "1.jpg"), tmp_path / "out")
    (example,) = flat(tmp_path / "out")
    assert "label" not in example.features.feature
    assert not (tmp_path / "out/vocab").exists()


def test_the_vocabulary_holds_the_sorted_labels_of_all_splits(tmp_path):
    names = ["train/b/1.jpg", "eval/Z é/1.jpg", "eval/b/1.jpg", "test/a,b/1.jpg"]
    convert(write_photos(tmp_path / "in", *names), tmp_path / "out")
    assert (tmp_path / "out/vocab/label.txt").read_bytes() == "Z é\na,b\nb\n".encode()
    schema = text_format.Parse((tmp_path / "out/schema.pbtxt").read_text(), schema_pb2.Schema())
    (label,) = [feature for feature in schema.feature if feature.name == "label"]
    assert (label.int_domain.min, label.int_domain.max) == (0, 2)


@pytest.mark.parametrize(
    ("modes", "shape"),
    [(["RGB", "RGB"], [24, 40, 3]), (["L", "L"], [24, 40]), (["L", "RGB"], [24, 40, 3])],
    ids=["RGB", "grey", "grey and RGB"],
)
def test_datum_learns_the_shape_of_the_images_and_a_trainer_may_batch_them(tmp_path, modes, shape):
    files = {f"{number}": photo(number, mode=mode) for number, mode in enumerate(modes)}
    convert(write_tree(tmp_path / "in", files), tmp_path / "out")
    types = json.loads((tmp_path / "out/datum_to_type_and_shape_mapping.json").read_text())
    known = {name: (entry["type"], entry["shape"], entry["dense"]) for name, entry in types.items()}
    assert known == {
        "image": ("string", shape, True),
        "filename": ("string", [], True),
        "height": ("int", [], True),
        "width": ("int", [], True),
        "channels": ("int", [], True),
    }
    batches = input_fn(str(tmp_path / "out"), "train+eval", batch_size=2, features="image")
    (batch,) = batches
    assert batch.shape[:3] == (2, 24, 40)


@pytest.mark.parametrize("where", ["in one shard", "over shards", "over splits"])
def test_a_trainer_learns_that_images_differ_in_size(tmp_path, where):
    odd = "eval/3.jpg" if where == "over splits" else "train/3.jpg"
    files = {"train/1.jpg": photo(1), "train/2.jpg": photo(2), odd: photo(3, size=(24, 40))}
    target = 1 if where == "over shards" else 1 << 20
    convert(write_tree(tmp_path / "in", files), tmp_path / "out", target_shard_bytes=target)
    with pytest.raises(ConfigError, match="image_size"):
        input_fn(str(tmp_path / "out"), "train", batch_size=2)
    (batch,) = input_fn(
        str(tmp_path / "out"), "train[:2]", batch_size=2, features="image", image_size=(8, 8)
    )
    assert batch.shape[:3] == (2, 8, 8)


# Shards -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("compression", "suffix"), [("none", ""), ("gzip", ".gz")])
def test_the_manifest_and_datum_say_of_each_shard_what_its_bytes_say(
    many, tmp_path, compression, suffix
):
    artifact = run(many, tmp_path, compression=compression, target_shard_bytes=20_000)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    found = {}
    for split in ("train", "eval"):
        files = shards(tmp_path, split)
        count = len(files)
        expected = [f"data_tfrecord-{i:05d}-of-{count:05d}{suffix}" for i in range(count)]
        assert [path.name for path in files] == expected
        assert count > 2
        for path in files:
            data = path.read_bytes()
            records = sum(1 for _ in tf.data.TFRecordDataset(str(path), "GZIP" if suffix else ""))
            crc = f"{google_crc32c.value(data):08x}"
            found[f"Split-{split}/{path.name}"] = (split, records, len(data), crc)
    stated = {
        shard["path"]: (shard["split"], shard["records"], shard["bytes"], shard["crc32c"])
        for shard in manifest["shards"]
    }
    assert stated == found
    datum = json.loads((tmp_path / "shard_info.json").read_text())
    assert {path: records for group in datum.values() for path, records in group.items()} == {
        path: records for path, (_, records, _, _) in found.items()
    }
    assert artifact.get_int_custom_property("num_shards") == len(found)


def test_shards_of_a_split_are_near_the_wished_size(many, tmp_path):
    convert(many, tmp_path, target_shard_bytes=20_000, output_config=output_config(("all", 1)))
    sizes = [path.stat().st_size for path in shards(tmp_path, "all")]
    assert 15_000 < sum(sizes) / len(sizes) < 25_000
    assert max(sizes) < 1.5 * min(sizes)


def test_shards_of_bad_images_alone_are_not_published(tmp_path):
    files = {f"{number}.jpg": photo(number) for number in range(6)}
    files |= {f"bad-{number}.jpg": b"" for number in range(5)}
    manifest = convert(
        write_tree(tmp_path / "in", files),
        tmp_path / "out",
        target_shard_bytes=1,
        max_reject_fraction=0.5,
        output_config=output_config(("all", 1)),
    )
    assert [path.name for path in shards(tmp_path / "out", "all")] == [
        f"data_tfrecord-{index:05d}-of-00006" for index in range(6)
    ]
    assert splits_of(tmp_path / "out").keys() == {f"{number}.jpg" for number in range(6)}
    assert [shard["records"] for shard in manifest["shards"]] == [1] * 6


def test_a_split_of_bad_images_alone_keeps_one_empty_shard(tmp_path):
    files = {"train/1.jpg": photo(1), "train/2.jpg": photo(2), "eval/3.jpg": b"", "eval/4.jpg": b""}
    base = write_tree(tmp_path / "in", files)
    manifest = convert(base, tmp_path / "out", target_shard_bytes=1, max_reject_fraction=0.5)
    (only,) = shards(tmp_path / "out", "eval")
    assert only.name == "data_tfrecord-00000-of-00001"
    assert read(tmp_path / "out")["eval"] == []
    assert accounting(manifest["splits"]["eval"]) == dict(found=2, written=0, rejected=2, skipped=0)


def test_a_shard_has_its_name_only_once_it_is_whole(tmp_path, monkeypatch):
    base, uri = write_photos(tmp_path / "in", "1.jpg", "2.jpg"), tmp_path / "out"
    while_writing: list[list[Path]] = []
    store_media = file_transforms.store_media

    def looking(*args: Any) -> Any:
        while_writing.append([*uri.glob("Split-*/*")])
        return store_media(*args)

    monkeypatch.setattr(file_transforms, "store_media", looking)
    manifest = convert(base, uri, output_config=output_config(("all", 1)))
    assert manifest["total"]["written"] == 2
    assert while_writing == [[], []]
    assert len(shards(uri, "all")) == 1


def test_nothing_but_the_dataset_is_left_at_the_uri(tmp_path):
    base = write_tree(tmp_path / "in", {"a/1.jpg": photo(1), "a/2.jpg": photo(2), "a/3.jpg": b""})
    config = output_config(("all", 1))
    convert(base, tmp_path / "out", output_config=config, max_reject_fraction=0.5)
    assert {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")} == {
        "Split-all",
        "Split-all/data_tfrecord-00000-of-00001",
        "datum_to_type_and_shape_mapping.json",
        "index",
        "index/all-00000-of-00001.npy",
        "manifest.json",
        "rejects.jsonl",
        "schema.pbtxt",
        "shard_info.json",
        "vocab",
        "vocab/label.txt",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


# Accounting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 30])
def test_every_input_is_counted_in_manifest_artifact_and_last_log_line(
    tmp_path, caplog, target_shard_bytes
):
    files = {
        **{f"train/cat/{number}.jpg": photo(number) for number in range(7)},
        **{f"train/dog/{number}.jpg": photo(10 + number) for number in range(4)},
        "train/dog/empty.jpg": b"",
        "train/dog/half.png": photo(20, "PNG")[:300],
        "train/stray.jpg": photo(21),
        "train/.hidden/1.jpg": photo(22),
        "train/cat/.DS_Store": b"x",
        "eval/cat/1.jpg": photo(23),
        "eval/cat/2.jpg": b"text",
        "eval/cat/Thumbs.db": b"x",
        "test/dog/1.jpg": photo(24),
    }
    caplog.set_level("INFO")
    artifact = run(
        write_tree(tmp_path / "in", files),
        tmp_path / "out",
        max_reject_fraction=0.5,
        target_shard_bytes=target_shard_bytes,
    )
    expected = {
        "train": dict(found=16, written=11, rejected=3, skipped=2),
        "eval": dict(found=3, written=1, rejected=1, skipped=1),
        "test": dict(found=1, written=1, rejected=0, skipped=0),
    }
    total = dict(found=20, written=13, rejected=4, skipped=3)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert {name: accounting(entry) for name, entry in manifest["splits"].items()} == expected
    assert accounting(manifest["total"]) == total
    records = {split: len(examples) for split, examples in read(tmp_path / "out").items()}
    assert records == {"train": 11, "eval": 1, "test": 1}
    lines = Counter(line["split"] for line in rejects_in(tmp_path / "out/rejects.jsonl"))
    assert lines == {"train": 3, "eval": 1}
    codes = {"EMPTY_FILE": 1, "TRUNCATED_IMAGE": 1, "NO_LABEL": 1, "NOT_AN_IMAGE": 1}
    assert manifest["rejects"] == codes
    assert manifest["splits"]["train"]["labels"] == {"cat": 7, "dog": 4}
    for prefix, counts in {"": total, **{f"{name}_": n for name, n in expected.items()}}.items():
        for name, count in counts.items():
            assert artifact.get_int_custom_property(prefix + name) == count
    assert "20 found = 13 written + 4 rejected + 3 skipped" in caplog.records[-1].getMessage()


CLUTTER = [
    ".DS_Store",
    ".hidden.jpg",
    "cat/.thumb.jpg",
    ".git/objects/ab",
    "cat/.cache/1.jpg",
    "Thumbs.db",
    "cat/Thumbs.db",
    "desktop.ini",
    "__MACOSX/cat/1.jpg",
]


@pytest.mark.parametrize("name", CLUTTER)
def test_hidden_and_system_files_are_skipped_and_counted(tmp_path, name):
    base = write_photos(tmp_path / "in", "cat/1.jpg", "dog/2.jpg", name)
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0)
    assert labels_of(tmp_path / "out") == {"cat/1.jpg": "cat", "dog/2.jpg": "dog"}
    assert accounting(manifest["total"]) == dict(found=3, written=2, rejected=0, skipped=1)
    assert not (tmp_path / "out/rejects.jsonl").exists()


# Rejects ------------------------------------------------------------------------------------------


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


BAD_FILES = {
    "empty": (b"", "EMPTY_FILE"),
    "text": (b"These are notes, not a photo.\n", "NOT_AN_IMAGE"),
    "zeros": (b"\0" * 1000, "NOT_AN_IMAGE"),
    "half a JPEG": (photo(1)[: len(photo(1)) // 2], "TRUNCATED_IMAGE"),
    "JPEG without its end": (photo(1)[:-2], "TRUNCATED_IMAGE"),
    "JPEG of ten bytes": (photo(1)[:10], "TRUNCATED_IMAGE"),
    "half a PNG": (photo(1, "PNG")[: len(photo(1, "PNG")) // 2], "TRUNCATED_IMAGE"),
    "PNG without its end": (photo(1, "PNG")[:-4], "TRUNCATED_IMAGE"),
    "PNG of twelve bytes": (photo(1, "PNG")[:12], "TRUNCATED_IMAGE"),
    "PNG with a flipped bit": (flipped(photo(1, "PNG"), 200), "DAMAGED_IMAGE"),
    "PPM": (photo(1, "PPM"), "UNSUPPORTED_FORMAT"),
}


@pytest.mark.parametrize(("data", "code"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_a_line_of_rejects_with_one_code(tmp_path, data, code):
    base = write_tree(tmp_path / "in", {"train/a/good.jpg": photo(0), "train/a/bad.jpg": data})
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.5)
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert line.pop("detail")
    assert line == {"source": "train/a/bad.jpg", "code": code, "split": "train"}
    assert manifest["rejects"] == {code: 1}
    assert splits_of(tmp_path / "out") == {"train/a/good.jpg": "train"}


def link_to_nowhere(path: Path, base: Path) -> None:
    path.symlink_to("nowhere.jpg")


def link_to_itself(path: Path, base: Path) -> None:
    path.symlink_to(path.name)


def link_out(path: Path, base: Path) -> None:
    path.symlink_to(write_photos(base.parent / "elsewhere", "1.jpg") / "1.jpg")


def link_to_a_folder_whose_name_begins_alike(path: Path, base: Path) -> None:
    path.symlink_to(write_photos(Path(f"{base}-2"), "1.jpg") / "1.jpg")


def link_to_a_folder(path: Path, base: Path) -> None:
    path.symlink_to(base, target_is_directory=True)


def pipe(path: Path, base: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("folder", ["", "train/a/"], ids=["at the top", "in a class"])
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (link_to_nowhere, "UNREADABLE"),
        (link_to_itself, "UNREADABLE"),
        (link_out, "OUTSIDE_INPUT_BASE"),
        (link_to_a_folder_whose_name_begins_alike, "OUTSIDE_INPUT_BASE"),
        (link_to_a_folder, "NOT_A_FILE"),
        (pipe, "NOT_A_FILE"),
    ],
)
def test_what_is_no_file_of_the_input_base_is_rejected(tmp_path, make, code, folder):
    base = write_photos(tmp_path / "in", f"{folder}good.jpg")
    make(base / f"{folder}bad.jpg", base)
    convert(base, tmp_path / "out", max_reject_fraction=0.5)
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == (f"{folder}bad.jpg", code)
    assert splits_of(tmp_path / "out").keys() == {f"{folder}good.jpg"}


def test_a_link_within_the_input_base_is_an_input_of_its_own(tmp_path):
    base = write_photos(tmp_path / "in", "a/1.jpg")
    (base / "b").mkdir()
    (base / "b/link.jpg").symlink_to("../a/1.jpg")
    convert(base, tmp_path / "out")
    assert labels_of(tmp_path / "out") == {"a/1.jpg": "a", "b/link.jpg": "b"}


def test_a_linked_input_base_is_like_the_folder_itself(tmp_path):
    write_photos(tmp_path / "in", "a/1.jpg", "b/2.jpg")
    (tmp_path / "link").symlink_to("in")
    convert(tmp_path / "link", tmp_path / "out")
    assert labels_of(tmp_path / "out") == {"a/1.jpg": "a", "b/2.jpg": "b"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train/a/1.jpg", "b.jpg"], {"b.jpg": "NO_SPLIT"}),
        (["train/a/1.jpg", "train/b.jpg"], {"train/b.jpg": "NO_LABEL"}),
        (["a/1.jpg", "b.jpg"], {"b.jpg": "NO_LABEL"}),
    ],
)
def test_a_photo_beside_the_folders_is_rejected(tmp_path, names, expected):
    base = write_photos(tmp_path / "in", *names)
    convert(base, tmp_path / "out", max_reject_fraction=0.5)
    lines = rejects_in(tmp_path / "out/rejects.jsonl")
    assert {line["source"]: line["code"] for line in lines} == expected
    assert labels_of(tmp_path / "out") == {names[0]: "a"}


def test_a_bad_row_of_a_csv_is_a_line_of_rejects_with_one_code(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg", "../elsewhere.jpg")
    (base / "link.jpg").symlink_to("../elsewhere.jpg")
    (base / "list.csv").write_text(
        "TRAIN,1.jpg,cat\n"
        "TRAIN,missing.jpg,cat\n"
        "TEST,2.jpg,\n"
        "TEST,../elsewhere.jpg,cat\n"
        f"TRAIN,{tmp_path}/elsewhere.jpg,cat\n"
        f"TRAIN,{base}-2/1.jpg,cat\n"
        "TRAIN,link.jpg,cat\n"
    )
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.9)
    lines = rejects_in(tmp_path / "out/rejects.jsonl")
    assert sorted((line["source"], line["code"], line["split"]) for line in lines) == [
        ("../elsewhere.jpg", "OUTSIDE_INPUT_BASE", "test"),
        (f"{tmp_path}/elsewhere.jpg", "OUTSIDE_INPUT_BASE", "train"),
        (f"{base}-2/1.jpg", "OUTSIDE_INPUT_BASE", "train"),
        ("2.jpg", "NO_LABEL", "test"),
        ("link.jpg", "OUTSIDE_INPUT_BASE", "train"),
        ("missing.jpg", "FILE_NOT_FOUND", "train"),
    ]
    (missing,) = [line for line in lines if line["source"] == "missing.jpg"]
    assert missing["detail"].startswith("line 2")
    assert placed(tmp_path / "out") == {"1.jpg": ("train", "cat")}
    assert accounting(manifest["total"]) == dict(found=7, written=1, rejected=6, skipped=0)


def remove(path: Path) -> None:
    path.unlink()


def make_a_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (remove, "VANISHED"),
        (remove_its_folder, "VANISHED"),
        (make_a_folder_of, "UNREADABLE"),
        (empty, "EMPTY_FILE"),
    ],
)
def test_what_changes_between_listing_and_reading_is_rejected(tmp_path, change, code):
    base = write_photos(tmp_path / "in", "train/a/1.jpg", "train/b/2.jpg")
    convert(
        base,
        tmp_path / "out",
        between=lambda: change(base / "train/b/2.jpg"),
        max_reject_fraction=0.5,
    )
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == ("train/b/2.jpg", code)
    assert splits_of(tmp_path / "out").keys() == {"train/a/1.jpg"}


@pytest.mark.parametrize("size", [(80, 60), (10, 10)], ids=["larger", "smaller"])
def test_a_photo_of_another_size_than_was_listed_is_rejected(tmp_path, size):
    base, other = write_photos(tmp_path / "in", "1.jpg", "2.jpg"), photo(7, "PNG", size=size)
    convert(
        base,
        tmp_path / "out",
        between=lambda: (base / "1.jpg").write_bytes(other),
        max_reject_fraction=0.5,
    )
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == ("1.jpg", "CHANGED_FILE")
    assert f"got {len(other)}" in line["detail"]
    assert splits_of(tmp_path / "out").keys() == {"2.jpg"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_rejected(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    (base / "2.jpg").chmod(0)
    convert(base, tmp_path / "out", max_reject_fraction=0.5)
    (line,) = rejects_in(tmp_path / "out/rejects.jsonl")
    assert (line["source"], line["code"]) == ("2.jpg", "UNREADABLE")


def test_rejects_are_utf_8_lines_of_json_whatever_the_names(tmp_path):
    names = ['a"b\\.jpg', "line\nbreak.jpg", "tab\t.jpg", "日本 \u2028.jpg", "byte-\udce9.jpg"]
    files = {f"train/a/{name}": b"" for name in names}
    base = write_tree(tmp_path / "in", {"train/a/good.jpg": photo(0), **files})
    convert(base, tmp_path / "out", max_reject_fraction=0.9)
    data = (tmp_path / "out/rejects.jsonl").read_bytes()
    sources = [json.loads(line)["source"] for line in data.decode("utf-8").split("\n")[:-1]]
    shown = [os.fsencode(name).decode("utf-8", "backslashreplace") for name in files]
    assert sorted(sources) == sorted(shown)


# Too many rejects ---------------------------------------------------------------------------------


def mixture(base: Path, good: int, bad: int) -> Path:
    files = {f"{number:03d}.jpg": photo(number) for number in range(good)}
    return write_tree(base, {**files, **{f"bad-{number:03d}.jpg": b"" for number in range(bad)}})


@pytest.mark.parametrize(
    ("good", "bad", "settings"),
    [
        (20, 0, {"max_reject_fraction": 0}),
        (10, 10, {"max_reject_fraction": 0.5}),
        (1, 9, {"max_reject_fraction": 1}),
        (99, 1, {}),
    ],
)
def test_as_many_rejects_as_allowed_are_no_failure(tmp_path, good, bad, settings):
    manifest = convert(mixture(tmp_path / "in", good, bad), tmp_path / "out", **settings)
    counts = dict(found=good + bad, written=good, rejected=bad, skipped=0)
    assert accounting(manifest["total"]) == counts


@pytest.mark.parametrize(
    ("good", "bad", "settings", "allowed"),
    [
        (20, 1, {"max_reject_fraction": 0}, "0"),
        (10, 12, {"max_reject_fraction": 0.5}, "0.5"),
        (98, 1, {}, "0.01"),
    ],
)
def test_more_rejects_than_allowed_fail_with_count_first_ten_and_list(
    tmp_path, good, bad, settings, allowed
):
    base = mixture(tmp_path / "in", good, bad)
    one_split = output_config(("all", 1))  # rejects are listed split by split
    with pytest.raises(InputError) as caught:
        convert(base, tmp_path / "out", output_config=one_split, **settings)
    message = str(caught.value)
    assert message.startswith(f"{bad} of {good + bad} inputs were rejected ({bad} EMPTY_FILE), ")
    assert f"max_reject_fraction={allowed} " in message
    shown = [f"bad-{number:03d}.jpg" in message for number in range(bad)]
    assert shown == [True] * min(bad, 10) + [False] * max(bad - 10, 0)
    (listed,) = (Path(word.rstrip(".")) for word in message.split() if ".jsonl" in word)
    assert [line["source"] for line in rejects_in(listed)] == [
        f"bad-{number:03d}.jpg" for number in range(bad)
    ]
    assert {line["code"] for line in rejects_in(listed)} == {"EMPTY_FILE"}


def test_a_failed_run_leaves_no_dataset(tmp_path):
    with pytest.raises(InputError, match="1 of 4 inputs"):
        convert(mixture(tmp_path / "in", 3, 1), tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()
    with pytest.raises(DatasetError, match="out"):
        input_fn(str(tmp_path / "out"))


def test_the_list_of_a_failed_run_is_there_when_tfx_has_removed_its_output(tmp_path):
    with pytest.raises(InputError) as caught:
        convert(mixture(tmp_path / "in", 3, 1), tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    (listed,) = (Path(word.rstrip(".")) for word in str(caught.value).split() if ".jsonl" in word)
    assert len(rejects_in(listed)) == 1


# Names --------------------------------------------------------------------------------------------

ODD_NAMES = {
    "spaces": "  two  words .jpg",
    "unicode": "ünïcødé-日本-😀.jpg",
    "decomposed": "e\u0301.jpg",
    "not UTF-8": os.fsdecode(b"caf\xe9-\xff.jpg"),
    "newline": "line\nbreak\r.jpg",
    "quotes": 'it\'s "quoted" \\ `here`.jpg',
    "wildcards": "100%_[a-z]*?{SPAN}$HOME~.jpg",
    "no suffix": "photo",
    "dash": "-rf",
    "255 bytes": "é" * 127 + "x",
}


@pytest.mark.parametrize("folder", ["", "train/a/"], ids=["at the top", "in a class"])
@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES)
def test_a_file_may_have_any_name(tmp_path, name, folder):
    base = write_photos(tmp_path / "in", f"{folder}plain.jpg", f"{folder}{name}")
    convert(base, tmp_path / "out")
    stored = {
        value(example, "filename"): sha256(value(example, "image"))
        for example in flat(tmp_path / "out")
    }
    assert stored == {
        f"{folder}plain.jpg".encode(): sha256(photo(0)),
        os.fsencode(f"{folder}{name}"): sha256(photo(1)),
    }


@pytest.mark.parametrize("name", ["  a b ", "ünï-日本", 'it\'s "b", c', "a\u2028b\x85c", "[x]*?"])
def test_a_class_may_have_any_name_of_one_line(tmp_path, name):
    base = write_photos(tmp_path / "in", f"{name}/1.jpg", "zzz/2.jpg")
    convert(base, tmp_path / "out")
    assert labels_of(tmp_path / "out") == {f"{name}/1.jpg": name, "zzz/2.jpg": "zzz"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [("two\nlines", "two\\nlines"), ("a\rb", "a\\rb"), (os.fsdecode(b"caf\xe9"), "caf")],
    ids=["newline", "carriage return", "not UTF-8"],
)
def test_a_class_that_no_vocabulary_can_hold_is_named(tmp_path, name, shown):
    others = [f"train/other-{number}/1.jpg" for number in range(9)]
    base = write_photos(tmp_path / "in", f"train/{name}/1.jpg", *others)
    with pytest.raises(InputError, match="label") as caught:
        convert(base, tmp_path / "out")
    assert shown in str(caught.value)
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("name", ["photos [2024] *?", "ünï 日本", 'it\'s "here"', "{SPAN}", "in/"])
def test_the_input_base_may_have_any_name(tmp_path, name):
    base = write_photos(tmp_path / name, "a/1.jpg", "b/2.jpg")
    convert(f"{base}/" if name.endswith("/") else base, tmp_path / "out")
    assert labels_of(tmp_path / "out") == {"a/1.jpg": "a", "b/2.jpg": "b"}


# Sentences ----------------------------------------------------------------------------------------


def no_folder(base: Path) -> dict[str, object]:
    base.rmdir()
    return {}


def empty_folder(base: Path) -> dict[str, object]:
    return {}


def empty_folders(base: Path) -> dict[str, object]:
    (base / "train/cat").mkdir(parents=True)
    return {}


def text_alone(base: Path) -> dict[str, object]:
    write_tree(base, {"a.txt": b"no photo", "b.txt": b"no photo"})
    return {"max_reject_fraction": 1}


def hidden_alone(base: Path) -> dict[str, object]:
    write_tree(base, {".DS_Store": b"x"})
    return {}


def hidden_and_text(base: Path) -> dict[str, object]:
    write_tree(base, {".DS_Store": b"x", "a.txt": b"no photo"})
    return {"max_reject_fraction": 1}


def unknown_folder_beside_splits(base: Path) -> dict[str, object]:
    write_photos(base, "train/1.jpg", "test/2.jpg", "holdout/3.jpg")
    return {}


def csv_of(text: str) -> Callable[[Path], dict[str, object]]:
    """A CSV in Latin-1 beside 1.jpg and 2.jpg."""

    def make(base: Path) -> dict[str, object]:
        write_photos(base, "1.jpg", "2.jpg")
        (base / "list.csv").write_bytes(text.encode("latin-1"))
        return {}

    return make


def two_csv_files(base: Path) -> dict[str, object]:
    write_tree(base, {"1.jpg": photo(1), "one.csv": b"TRAIN,1.jpg,a\n", "two.csv": b""})
    return {}


def no_csv_file(base: Path) -> dict[str, object]:
    write_photos(base, "1.jpg")
    return {"layout": "csv"}


def pattern_of_nothing(base: Path) -> dict[str, object]:
    write_photos(base, "1.jpg")
    return {"input_config": input_config(train="nothing-here/*")}


def patterns_that_overlap(base: Path) -> dict[str, object]:
    write_photos(base, "a/1.jpg", "b/2.jpg")
    return {"input_config": input_config(train="*", test="b/*")}


NO_DATASET = {
    "no folder": (no_folder, ["{base}", "found none"]),
    "an empty folder": (empty_folder, ["{base}", "empty"]),
    "empty folders": (empty_folders, ["{base}", "empty"]),
    "text alone": (text_alone, ["{base}", "none that can be read"]),
    "hidden alone": (hidden_alone, ["{base}", "none that can be read"]),
    "hidden and text": (hidden_and_text, ["{base}", "none that can be read"]),
    "an unknown folder beside splits": (
        unknown_folder_beside_splits,
        ["{base}", "train", "test", "holdout"],
    ),
    "an unknown split": (
        csv_of("TRAIN,1.jpg,a\nHOLDOUT,2.jpg,a\n"),
        ["list.csv", "'HOLDOUT'", "line 2"],
    ),
    "a photo twice": (
        csv_of("TRAIN,1.jpg,a\nTEST,./1.jpg,b\n"),
        ["list.csv", "'./1.jpg'", "lines 1 and 2"],
    ),
    "a column too few": (
        csv_of("TRAIN,1.jpg,a\nTRAIN,2.jpg\n"),
        ["list.csv", "3 columns", "got 2", "line 2"],
    ),
    "Latin-1": (csv_of("TRAIN,1.jpg,caf\xe9\n"), ["list.csv", "UTF-8", "byte 15"]),
    "an open quote": (csv_of('TRAIN,1.jpg,"a\n'), ["list.csv", "line 1"]),
    "a label of two lines": (csv_of('TRAIN,1.jpg,"a\nb"\n'), ["'a\\nb'", "one line"]),
    "a header alone": (csv_of("split,image_uri,label\n"), ["list.csv", "found none"]),
    "an empty CSV": (csv_of(""), ["list.csv", "found none"]),
    "two CSV files": (two_csv_files, ["{base}", "one.csv, two.csv"]),
    "no CSV file": (no_csv_file, ["{base}", "layout='csv'"]),
    "a pattern of nothing": (pattern_of_nothing, ["{base}", "'nothing-here/*'"]),
    "patterns that overlap": (patterns_that_overlap, ["'b/2.jpg'", "two"]),
}


@pytest.mark.parametrize(("make", "words"), NO_DATASET.values(), ids=NO_DATASET)
def test_input_that_makes_no_dataset_is_refused_in_one_clear_sentence(tmp_path, make, words):
    base = tmp_path / "in"
    base.mkdir()
    properties = make(base)
    with pytest.raises(InputError) as caught:
        convert(base, tmp_path / "out", **properties)
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word.format(base=base) not in message] == []
    assert not (tmp_path / "out/manifest.json").exists()


def test_one_image_is_no_input_base(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    with pytest.raises(InputError, match=r"in/1\.jpg"):
        convert(base / "1.jpg", tmp_path / "out")


# Settings -----------------------------------------------------------------------------------------

BAD_SETTINGS = [
    ("layout", "nonsense"),
    ("seed", 2**63),
    ("seed", -(2**63) - 1),
    ("seed", 1.5),
    ("seed", "1"),
    ("seed", True),
    ("target_shard_bytes", 0),
    ("target_shard_bytes", -1),
    ("target_shard_bytes", 0.5),
    ("target_shard_bytes", True),
    ("compression", "zip"),
    ("compression", ""),
    ("max_reject_fraction", -0.01),
    ("max_reject_fraction", 1.01),
    ("max_reject_fraction", float("nan")),
    ("max_reject_fraction", "0.5"),
    ("max_reject_fraction", True),
]


@pytest.mark.parametrize(("name", "wrong"), BAD_SETTINGS)
def test_the_executor_refuses_a_wrong_setting_before_it_writes(tmp_path, name, wrong):
    base = write_photos(tmp_path / "in", "1.jpg")
    with pytest.raises(ConfigError, match=f"^{name}: ") as caught:
        convert(base, tmp_path / "out", **{name: wrong})
    assert repr(wrong) in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "wrong"), BAD_SETTINGS)
def test_the_component_refuses_a_wrong_setting_where_it_is_made(name, wrong):
    with pytest.raises(ConfigError, match=f"^{name}: ") as caught:
        ImageExampleGen("photos/", **{name: wrong})
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 2**63 - 1},
        {"seed": -(2**63)},
        {"target_shard_bytes": 1},
        {"target_shard_bytes": 1 << 50},
        {"max_reject_fraction": 0},
        {"max_reject_fraction": 1.0},
        {"layout": "folder"},
    ],
)
def test_a_setting_at_its_bound_is_allowed(tmp_path, settings):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    manifest = convert(base, tmp_path / "out", **settings)
    assert manifest["total"]["written"] == 2
    assert manifest["config"].items() >= settings.items()


BAD_SPLITS = {
    "a space": ({"output_config": output_config(("a b", 1))}, ["'a b'"]),
    "a path": ({"output_config": output_config(("../up", 1))}, ["'../up'"]),
    "not ASCII": ({"output_config": output_config(("é", 1))}, ["'é'"]),
    "no share": (
        {"output_config": output_config(("train", 0))},
        ["'train'", "hash_buckets", "got 0"],
    ),
    "an output split twice": (
        {"output_config": output_config(("t", 2), ("t", 1))},
        ["'t'", "output_config"],
    ),
    "a dash in an input split": ({"input_config": input_config(**{"a-b": "*"})}, ["'a-b'"]),
    "an unknown feature": (
        {"output_config": output_config(("t", 1), partition_feature_name="hue")},
        ["partition_feature_name", "'hue'"],
    ),
    "splits of input and output": (
        {
            "input_config": input_config(one="1*", two="2*"),
            "output_config": output_config(("all", 1)),
        },
        ["output_config", "one, two", "all"],
    ),
}


@pytest.mark.parametrize(("properties", "words"), BAD_SPLITS.values(), ids=BAD_SPLITS)
def test_a_wrong_split_config_is_refused(tmp_path, properties, words):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    with pytest.raises(ConfigError) as caught:
        convert(base, tmp_path / "out", **properties)
    assert [word for word in words if word not in str(caught.value)] == []
    assert not (tmp_path / "out").exists()


def test_an_input_split_named_twice_is_refused(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    patterns = [{"name": "t", "pattern": "1*"}, {"name": "t", "pattern": "2*"}]
    with pytest.raises(ConfigError, match="'t'"):
        convert(base, tmp_path / "out", input_config=json.dumps({"splits": patterns}))


def test_output_splits_are_refused_where_folders_name_their_own(tmp_path):
    base = write_photos(tmp_path / "in", "train/1.jpg", "test/2.jpg")
    with pytest.raises(ConfigError, match=r"output_config.*test, train.*got mine"):
        convert(base, tmp_path / "out", output_config=output_config(("mine", 1)))


def test_a_partition_by_label_is_refused_where_there_are_no_labels(tmp_path):
    base = write_photos(tmp_path / "in", "1.jpg", "2.jpg")
    config = output_config(("train", 1), ("eval", 1), partition_feature_name="label")
    with pytest.raises(ConfigError, match=r"partition_feature_name.*'label'"):
        convert(base, tmp_path / "out", output_config=config)
