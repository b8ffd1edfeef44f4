"""The writing rows of docs/coming-from.md: the call of the other library and ours agree."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import pipelines
import trainer_utils
from tests.docs.coming_from import row
from tests.make import archive, write_rows
from trainer_utils import input_fn

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
GUIDE, TF_DATA = "The TFRecord guide", "The tf.data guide"
ROWS = [{"id": number, "text": f"text {number}"} for number in range(40)]


def ids(uri, splits=("train", "eval")):
    found = [input_fn(str(uri), split, batch_size=None, shuffle=False) for split in splits]
    return sorted(int(example["id"]) for dataset in found for example in dataset)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, photos):
    """Write photos for Datum's `ClfDatumGenerator` and for TFRecorder's table."""
    base = tmp_path_factory.mktemp("pictures")
    listed = []
    for split in ("train", "val"):
        (base / "datum" / split).mkdir(parents=True)
        with (base / f"datum/{split}.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["filename", "label"])
            for number, photo in enumerate(photos[:6]):
                path = base / f"datum/{split}/{number}.jpg"
                Image.fromarray(photo).save(path)
                table.writerow([number, number % 2])
                name = {"train": "TRAIN", "val": "VALIDATION"}[split]
                listed.append([name, str(path), f"class{number % 2}"])
    with (base / "list.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["split", "image_uri", "label"], *listed])
    return base


@row("Datum", '`export_to_tfrecord(src, out, "image_clf", configs)`')
@row("keras_imagenet", "`build_imagenet_data.py`")
def test_a_folder_of_photos(pictures, tmp_path):
    source = tmp_path / "src"
    for number, path in enumerate(sorted((pictures / "datum/train").iterdir())):
        (source / f"class{number % 2}").mkdir(parents=True, exist_ok=True)
        (source / f"class{number % 2}/{number}.jpg").write_bytes(path.read_bytes())
    uri = pipelines.convert(source, tmp_path / "out", splits={"train": 1})
    assert sum(int(batch["label"].shape[0]) for batch in input_fn(uri, image_size=(8, 8))) == 6


@row("Datum", "its generators, called with `split=`")
@row(TF_DATA, "`from_generator(generator, …)`")
def test_a_generator(tmp_path):
    uri = pipelines.convert((row for row in ROWS), tmp_path / "out")
    assert ids(uri) == list(range(40))


@row(TF_DATA, '`from_tensor_slices({"x": xs, "y": ys})`')
def test_arrays(tmp_path):
    xs = np.arange(80, dtype=np.float32).reshape(40, 2)
    uri = pipelines.convert({"x": xs, "id": np.arange(40)}, tmp_path / "out")
    assert ids(uri) == list(range(40))
    theirs = {int(i): x for i, x in tf.data.Dataset.from_tensor_slices((np.arange(40), xs))}
    for split in ("train", "eval"):
        for example in input_fn(uri, split, batch_size=None):
            np.testing.assert_array_equal(example["x"], theirs[int(example["id"])])


@row("TFRecorder", "`df.tensorflow.to_tfr(output_dir=out)`")
def test_tfrecorders_accessor(pictures, tmp_path):
    import pandas

    import pipelines.pandas  # noqa: F401  registers the accessor of DataFrames

    frame = pandas.read_csv(pictures / "list.csv")
    result = frame.tensorflow.to_tfr(output_dir=str(tmp_path / "out"))
    assert {"job_id", "metrics", "tfrecord_dir"} <= set(result)
    splits = trainer_utils.load(result["tfrecord_dir"], batch_size=3, image_size=(8, 8))
    assert {name: len(list(dataset)) for name, dataset in splits.items()} == {"train": 2, "eval": 2}


@row("TFRecorder", '`tfrecorder.convert("list.csv", output_dir=out)`')
@row(
    "TFRecorder", '`tfrecorder.convert_and_load("list.csv", output_dir=out)`', "`header=`, `names=`"
)
def test_tfrecorders_table_with_names_for_its_columns(pictures, tmp_path):
    (tmp_path / "list.csv").write_text((pictures / "list.csv").read_text().replace("label", "x"))
    names = ["split", "image_uri", "label"]
    uri = pipelines.convert(
        tmp_path / "list.csv",
        tmp_path / "out",
        column_names=names,
        header=True,
        file_roots=[str(pictures)],
    )
    splits = trainer_utils.load(uri, batch_size=3, image_size=(8, 8))
    assert {name: len(list(dataset)) for name, dataset in splits.items()} == {"train": 2, "eval": 2}
    assert "label" in next(iter(splits["train"]))


@row("TFRecorder", "`.zlib` files")
def test_zlib_files_are_read_unchanged(tmp_path, serialize):
    path = str(tmp_path / "x.tfrecord.zlib")
    with tf.io.TFRecordWriter(path, "ZLIB") as stream:
        for number in range(40):
            stream.write(serialize(id=[number]))
    assert ids(path, splits=["train"]) == list(range(40))


@row("Datum", "`from datum.reader import load`, for a dataset of tfx-shards")
@row(
    "Datum", "`image_dir`, `csv_path`, `annotation_dir`, `label_dir`, `set_dir`", "`classes.names`"
)
def test_own_folders_and_datum_itself(photos, tmp_path, subtests):
    from datum.reader import load

    base = tmp_path / "in"
    for folder in ("jpg", "boxes", "sets"):
        (base / folder).mkdir(parents=True)
    (base / "classes.names").write_text("fish\nbird\n")
    for number, (split, label) in enumerate((("train", "bird"), ("val", "fish"))):
        image = Image.fromarray(photos[number])
        image.save(base / f"jpg/{number}.jpg")
        (base / f"sets/{split}.txt").write_text(f"{number}\n")
        box = "<xmin>1</xmin><xmax>9</xmax><ymin>1</ymin><ymax>9</ymax>"
        (base / f"boxes/{number}.xml").write_text(
            f"<a><size><width>{image.width}</width><height>{image.height}</height></size>"
            f"<object><name>{label}</name><bndbox>{box}</bndbox></object></a>"
        )
    names = {"image_dir": "jpg", "annotation_dir": "boxes", "image_set_dir": "sets"}
    uri = pipelines.convert(base, tmp_path / "out", **names)
    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    for split, expected in (("train", 1), ("eval", 0)):
        with subtests.test(split=split):
            (example,) = loaded.val_fn(split)
            labels = example["labels"]
            labels = labels.values if isinstance(labels, tf.SparseTensor) else labels
            assert np.ravel(labels).tolist() == [expected]


@pytest.fixture(scope="module")
def imagenet_photos(photos):
    def encoded(number):
        return tf.io.encode_jpeg(photos[number]).numpy()

    return encoded


@row("keras_imagenet", "`image/encoded`, `image/class/label`")
@row("keras_imagenet", "`train/n01440764/…`, and a flat `validation/` with `synset_labels.txt`")
def test_imagenets_folders(imagenet_photos, tmp_path, subtests):
    source = tmp_path / "in"
    names = [f"train/n0{n % 2}/{n}.JPEG" for n in range(4)]
    names += [f"validation/ILSVRC2012_val_0000000{n}.JPEG" for n in (1, 2)]
    for number, name in enumerate(names):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(imagenet_photos(number))
    (source / "synset_labels.txt").write_text("n01\nn01\n")
    wanted = {"image": "image/encoded", "label": "image/class/label"}
    given = {"label_list": "synset_labels.txt", "feature_names": wanted}
    uri = pipelines.convert(source, tmp_path / "out", **given)
    settings = {"features": "image/encoded", "label": "image/class/label", "image_size": (8, 8)}
    for split, expected in (("train", [0, 0, 1, 1]), ("eval", [1, 1])):
        with subtests.test(split=split):
            found = [y for _, labels in input_fn(uri, split, **settings) for y in labels.numpy()]
            assert sorted(found) == expected


@row("keras_imagenet", "`ILSVRC2012_img_train.tar`")
def test_imagenets_archive_of_archives(imagenet_photos, tmp_path):
    inner = {f"n0{n}.tar": archive({f"n0{n}_1.JPEG": imagenet_photos(n)}) for n in range(3)}
    (tmp_path / "ILSVRC2012_img_train.tar").write_bytes(archive(inner))
    uri = pipelines.convert(tmp_path / "ILSVRC2012_img_train.tar", tmp_path / "out")
    batches = input_fn(uri, "train", label="label", image_size=(8, 8))
    assert sorted(y for _, labels in batches for y in labels.numpy()) == [0, 1, 2]


@row("TFRecorder", '`runner="DataflowRunner", project=…`')
def test_runners_arguments(tmp_path):
    arguments = ["--runner=DirectRunner", "--direct_num_workers=1"]
    uri = pipelines.convert(ROWS, tmp_path / "out", beam_pipeline_args=arguments)
    assert ids(uri) == list(range(40))


@row(GUIDE, "`TFRecordWriter(path)`, `tf.train.Example(…)`")
def test_a_writer(tmp_path, serialize):
    out = write_rows(tmp_path / "out", ROWS)
    path = str(tmp_path / "theirs.tfrecord")
    with tf.io.TFRecordWriter(path) as stream:
        for one in ROWS:
            stream.write(serialize(id=[one["id"]], text=[one["text"].encode()]))
    assert ids(out, ["train"]) == ids(path, ["train"])


@row(GUIDE, "`tf.io.serialize_tensor(array)`")
def test_tensors(tmp_path):
    dtype = np.float16
    arrays = [np.arange(12).reshape(3, 4).astype(dtype) + number for number in range(4)]
    arrays = [array.astype(dtype) for array in arrays]
    write_rows(tmp_path / "out", ({"id": n, "x": array} for n, array in enumerate(arrays)))
    for example in input_fn(str(tmp_path / "out"), batch_size=None):
        expected = arrays[int(example["id"])]
        restored = tf.io.parse_tensor(tf.io.serialize_tensor(expected), tf.as_dtype(dtype))
        assert example["x"].dtype == restored.dtype
        np.testing.assert_array_equal(example["x"], restored)
