"""ImageExampleGen's executor: its output compared with TensorFlow's reader and PIL."""

import gzip
import io
import json

import google_crc32c
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.components.image_example_gen.image_runs import (
    convert,
    flat,
    photo,
    run,
    value,
    write_photos,
    write_tree,
)
from tests.components.runs import input_config, placed, records_of, shards
from trainer_utils import input_fn
from trainer_utils.core.errors import InputError
from trainer_utils.format import Manifest, RecordIndex

FOLDERS: dict[str, dict[str, tuple[str | None, str | None]]] = {  # None: the hash decides
    "split and class": {
        "train/cat/1.jpg": ("train", "cat"),
        "train/dog/2.jpg": ("train", "dog"),
        "eval/dog/1.jpg": ("eval", "dog"),
        "test/cat/3.jpg": ("test", "cat"),
    },
    "split": {"train/1.jpg": ("train", None), "test/1.jpg": ("test", None)},
    "nested below the class": {
        "train/cat/2024/may/1.jpg": ("train", "cat"),
        "train/cat/1.jpg": ("train", "cat"),
        "train/dog/2.jpg": ("train", "dog"),
        "test/dog/a/b/c/d/1.jpg": ("test", "dog"),
    },
    "wrapped": {
        "photos/photos/cat/1.jpg": (None, "cat"),
        "photos/photos/dog/2.jpg": (None, "dog"),
    },
    "splits wrapped in splits": {
        "seg_train/seg_train/forest/1.jpg": ("train", "forest"),
        "seg_train/seg_train/sea/2.jpg": ("train", "sea"),
        "seg_test/seg_test/sea/3.jpg": ("test", "sea"),
    },
    "nested": {"cat/2024/may/1.jpg": (None, "cat"), "dog/x/3.jpg": (None, "dog")},
    "folders named like files": {
        "cat.jpg/1.jpg": (None, "cat.jpg"),
        "dog.png/2": (None, "dog.png"),
    },
    "flat": {"1.jpg": (None, None), "2.jpg": (None, None), "3": (None, None)},
}


OBEYED: dict[str, dict[str, tuple[str | None, str | None]]] = {
    "classes named like splits": {
        "train/train/1.jpg": ("train", "train"),
        "train/test/1.jpg": ("train", "test"),
    },
    "a class called train": {"train/1.jpg": (None, "train"), "tram/2.jpg": (None, "tram")},
    "one class": {"cat/1.jpg": (None, "cat"), "cat/2.jpg": (None, "cat")},
    "kinds of files": {"images/1.jpg": (None, "images"), "masks/1.jpg": (None, "masks")},
    "words of files": {"cat/test_1.jpg": (None, "cat"), "dog/2.jpg": (None, "dog")},
}


@pytest.mark.parametrize(
    ("case", "settings"),
    [*((case, {}) for case in FOLDERS), *((case, {"layout": "folder"}) for case in OBEYED)],
)
def test_folders_give_split_and_label_of_each_file(tmp_path, case, settings):
    expected = (OBEYED if settings else FOLDERS)[case]
    base, uri = tmp_path / case / "in", tmp_path / case / "out"
    manifest = convert(write_photos(base, *expected), uri, **settings)
    by_hash = {name for name, (split, _) in expected.items() if split is None}
    found = {
        name: (None if name in by_hash else split, label)
        for name, (split, label) in placed(uri).items()
    }
    assert found == expected
    assert not by_hash or manifest["split_order"] == ["train", "eval"]


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


KINDS = {
    "grey.jpg": photo(1, "JPEG", "L", (33, 21)),
    "rgb.jpg": photo(2, "JPEG", "RGB", (21, 33)),
    "grey.png": photo(3, "PNG", "L", (16, 8)),
    "rgb.png": photo(4, "PNG", "RGB", (8, 16)),
    "rgba.png": photo(5, "PNG", "RGBA", (9, 7)),
}


@pytest.mark.parametrize("settings", [{}, {"target_shard_bytes": 2000, "compression": "gzip"}])
def test_each_photo_is_written_once_and_agrees_with_pil(tmp_path, settings):
    files = {f"{label}/{name}": data for label in ("b", "a") for name, data in KINDS.items()}
    files |= {f"b/{number}.jpg": photo(number) for number in range(30)}
    convert(write_tree(tmp_path / "in", files), tmp_path / "out", layout="folder", **settings)
    names = []
    for example in flat(tmp_path / "out"):
        kinds = {name: f.WhichOneof("kind") for name, f in example.features.feature.items()}
        ints = dict.fromkeys(["height", "width", "channels", "label"], "int64_list")
        assert kinds == {"image": "bytes_list", "filename": "bytes_list", **ints}
        name = value(example, "filename").decode()
        assert value(example, "image") == files[name]
        size = tuple(value(example, feature) for feature in ("height", "width", "channels"))
        image = Image.open(io.BytesIO(files[name]))
        assert size == (image.height, image.width, len(image.getbands()))
        assert tf.io.decode_image(value(example, "image")).shape == size
        assert value(example, "label") == {"a": 0, "b": 1}[name.split("/")[0]]
        names.append(name)
    assert sorted(names) == sorted(files)


def test_vocabulary_has_the_sorted_labels_of_all_splits(tmp_path):
    names = ["train/b/1.jpg", "train/Z é/1.jpg", "eval/b/1.jpg", "train/a,b/1.jpg"]
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
def test_datum_mapping_has_the_common_shape_of_images(tmp_path, modes, shape):
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


@pytest.mark.parametrize(("compression", "suffix"), [("none", ""), ("gzip", ".gz")])
def test_manifest_index_and_datum_agree_with_the_shards(tmp_path, compression, suffix, subtests):
    names = [f"class-{number % 12:02d}/{number:03d}.jpg" for number in range(300)]
    many = write_photos(tmp_path / "in", *names)
    artifact = run(many, tmp_path / "out", compression=compression, target_shard_bytes=20_000)
    text = (tmp_path / "out/manifest.json").read_text()
    manifest = json.loads(text)
    described = {
        shard.path: shard for shard in Manifest.from_json(text, path="manifest.json").shards
    }
    found = {}
    for split in ("train", "eval"):
        with subtests.test(split=split):
            files = shards(tmp_path / "out", split)
            count = len(files)
            expected = [f"data_tfrecord-{i:05d}-of-{count:05d}{suffix}" for i in range(count)]
            assert [path.name for path in files] == expected
            assert count > 2
            for path in files:
                data = path.read_bytes()
                records = [*records_of(path)]
                crc = f"{google_crc32c.value(data):08x}"
                found[f"Split-{split}/{path.name}"] = (split, len(records), len(data), crc)
                name = path.name.removesuffix(".gz").replace("data_tfrecord", split)
                kept = (tmp_path / f"out/index/{name}.npy").read_bytes()
                (entry,) = (
                    e for e in manifest["shards"] if e["path"] == f"Split-{split}/{path.name}"
                )
                assert f"{google_crc32c.value(kept):08x}" == entry["index_crc32c"]
                index = RecordIndex.from_bytes(kept, path=name, shard=described[entry["path"]])
                stream = io.BytesIO(gzip.decompress(data) if suffix else data)
                assert [index.read(stream, n, path="") for n in range(len(index))] == records
    stated = {
        shard["path"]: (shard["split"], shard["records"], shard["bytes"], shard["crc32c"])
        for shard in manifest["shards"]
    }
    assert stated == found
    datum = json.loads((tmp_path / "out/shard_info.json").read_text())
    assert {path: records for group in datum.values() for path, records in group.items()} == {
        path: records for path, (_, records, _, _) in found.items()
    }
    assert artifact.get_int_custom_property("num_shards") == len(found)


def test_named_split_that_loses_every_image_is_an_error(tmp_path):
    files = {"train/1.jpg": photo(1), "train/2.jpg": photo(2), "eval/3.jpg": b"", "eval/4.jpg": b""}
    base = write_tree(tmp_path / "in", files)
    with pytest.raises(InputError, match="all 2 images of the split 'eval' were rejected"):
        convert(base, tmp_path / "out", target_shard_bytes=1, max_reject_fraction=0.5)
    assert not (tmp_path / "out/manifest.json").exists()
