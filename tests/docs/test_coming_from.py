"""The reading rows of docs/coming-from.md: the call of the other library and ours agree."""

import base64
import importlib
import itertools

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import trainer_utils
from pipelines.cli.app import app
from tests.docs.coming_from import COVERED, row, rows
from trainer_utils import input_fn, load

datum = pytest.importorskip("datum")  # `make test-trainer` does not install it

GUIDE, TF_DATA, IMAGENET = "The TFRecord guide", "The tf.data guide", "keras_imagenet"
NUM = 24


def test_every_row_has_a_test():
    importlib.import_module("tests.docs.test_coming_from_writing")
    assert set(rows()) == COVERED


def numbers(dataset, name="id"):
    """Return the values of a feature, in order."""
    return [int(value) for batch in dataset for value in np.ravel(batch[name])]


@pytest.fixture(scope="module")
def records(tmp_path_factory, serialize):
    """Write three files with `TFRecordWriter`, as in the guide: ids, and lists of tokens."""
    folder = tmp_path_factory.mktemp("records")
    for index in range(3):
        with tf.io.TFRecordWriter(f"{folder}/train-{index:05d}-of-00003.tfrecord") as writer:
            for number in range(index * 8, index * 8 + 8):
                tokens = list(range(1, number % 5 + 2))
                writer.write(serialize(id=[number], weight=[number / 4], tokens=tokens))
    return folder


@pytest.fixture(scope="module")
def files(records):
    return sorted(map(str, records.iterdir()))


DESCRIPTION = {
    "id": tf.io.FixedLenFeature((), tf.int64),
    "weight": tf.io.FixedLenFeature((), tf.float32),
    "tokens": tf.io.VarLenFeature(tf.int64),
}


def parse(record):
    parsed = tf.io.parse_single_example(record, DESCRIPTION)
    return {**parsed, "tokens": tf.sparse.to_dense(parsed["tokens"])}


@pytest.fixture(scope="module")
def theirs(files):
    """Read files as in the guide."""
    return tf.data.TFRecordDataset(files).map(parse)


def assert_equal(ours, theirs):
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs) > 0
    for mine, other in zip(ours, theirs, strict=True):
        assert set(mine) == set(other)
        for name in mine:
            np.testing.assert_array_equal(mine[name], other[name])


# --- Datum


@pytest.fixture(scope="module")
def datum_load(datum_photos):
    from datum.configs import DatasetConfigs
    from datum.reader import load as load_with_datum

    def load(**settings):
        configs = DatasetConfigs()
        for name, value in {"shuffle_files": False, **settings}.items():
            setattr(configs, name, value)
        return load_with_datum(datum_photos, configs)

    return load


@row(
    "Datum",
    '`from datum.reader import load`; `load(path).train_fn("train")`',
    "`batch_size_train`, `drop_remainder`",
)
def test_datums_batches(datum_load, datum_photos):
    reader = datum_load(batch_size_train=5, drop_remainder=True)
    reader.dataset_configs.read_config.interleave_cycle_length = 1
    ours = input_fn(datum_photos, "train", batch_size=5, remainder="drop", shuffle=False)
    assert_equal(ours, reader.train_fn("train", shuffle=False))


@row("Datum", '`train_fn("train[:80%]+val[10:]")`')
@pytest.mark.parametrize("spec", ["train[:80%]+val[2:]", "train[-5:]"])
def test_datums_slices(datum_load, datum_photos, spec):
    reader = datum_load(batch_size_train=1)
    ours = input_fn(datum_photos, spec, batch_size=1, shuffle=False)
    assert numbers(ours) == numbers(reader.train_fn(spec, shuffle=False))


@row("Datum", "`pre_batching_callback_train`, `post_batching_callback_val`")
def test_datums_callbacks(datum_load, datum_photos):
    def double(example):
        return {**example, "weight": example["weight"] * 2}

    reader = datum_load(
        batch_size_train=23,
        batch_size_val=7,
        pre_batching_callback_train=double,
        post_batching_callback_val=double,
    )
    hooks = {"pre_batching_callback": {"train": double}, "post_batching_callback": {"val": double}}
    assert_equal(
        input_fn(datum_photos, "train", batch_size=23, shuffle=False, **hooks),
        reader.train_fn("train", shuffle=False),
    )
    assert_equal(
        input_fn(datum_photos, "val", batch_size=7, shuffle=False, **hooks), reader.val_fn("val")
    )


@row("Datum", "`echoing`", "`full_dataset`")
def test_datums_echoes_and_whole_dataset(datum_load, datum_photos):
    reader = datum_load(batch_size_train=5, echoing=2)
    ours = input_fn(datum_photos, "train", batch_size=5, echoing=2, shuffle=False)
    assert numbers(ours)[:40] == numbers(reader.train_fn("train", shuffle=False))[:40]
    reader = datum_load(batch_size_val=7, full_dataset=True)
    count = trainer_utils.plan(datum_photos, "val").records
    whole = next(iter(input_fn(datum_photos, "val", batch_size=count, shuffle=False)))
    assert_equal([whole], [reader.val_fn("val")])


@row("Datum", "`num_parallel_calls`, `deterministic`, `buffer_size`, `read_config`")
def test_unneeded_settings_of_datum_are_refused(subtests):
    for name in ("num_parallel_calls", "deterministic", "buffer_size", "read_config"):
        with subtests.test(name=name):
            assert hasattr(importlib.import_module("datum.configs").DatasetConfigs, name)
            with pytest.raises(trainer_utils.ConfigError, match=f"'{name}': "):
                input_fn("anything", "train", **{name: 1})


@row("Datum", "`cache`, `cache_filename`")
@row(TF_DATA, "`cache()`, `prefetch(2)`")
def test_caches(files, theirs, tmp_path):
    place = str(tmp_path / "copies")
    ours = input_fn(files, batch_size=None, shuffle=False, cache=place, prefetch=2)
    assert_equal(ours, theirs.cache().prefetch(2))


@row("Datum", "`bucket_op`, `bucket_fn`")
@row(TF_DATA, "`bucket_by_sequence_length(…)`")
def test_buckets(files, theirs):
    settings = (lambda example: tf.size(example["tokens"])), [3, 5], [4, 2, 1]
    examples = input_fn(files, batch_size=None, shuffle=False)
    assert_equal(
        examples.bucket_by_sequence_length(*settings), theirs.bucket_by_sequence_length(*settings)
    )


@row("Datum", "`use_tf_padding`, `use_datum_padding`")
@row(TF_DATA, "`padded_batch(4)`")
def test_padding(files, theirs):
    assert_equal(input_fn(files, batch_size=4, shuffle=False), theirs.padded_batch(4))


@row("Datum", "`image_det`, `image_seg`")
def test_datums_objects_and_label_maps():
    module = importlib.import_module("tests.trainer_utils.dataset.test_datum_claims")
    assert module.test_boxes_are_read_with_any_datum_description
    assert module.test_resized_label_maps_keep_their_classes


# --- TFRecorder, which does not run with current versions of TensorFlow


@pytest.fixture(scope="module")
def tfrecorder(tmp_path_factory, photos, serialize):
    folder = tmp_path_factory.mktemp("tfrecorder")
    for split, some in {"train": photos[:5], "validation": photos[5:8]}.items():
        path = f"{folder}/{split}-00000-of-00001.tfrecord.gz"
        with tf.io.TFRecordWriter(path, options="GZIP") as writer:
            for photo in some:
                encoded = base64.b64encode(photo.tobytes(), altchars=b"-_")  # TFRecorder's `encode`
                size = {"image_height": [40], "image_width": [48], "image_channels": [3]}
                writer.write(serialize(image=[encoded], image_name=[b"x.jpg"], **size))
    return folder


@row("TFRecorder", "`tfrecorder.load(folder)`")
@row("TFRecorder", "base64 in `image`, with `image_height`, `image_width`, `image_channels`")
def test_tfrecorders_images(tfrecorder, photos):
    def decoded(example):
        pixels = tf.io.decode_raw(tf.io.decode_base64(example["image"]), tf.uint8)
        size = [example[f"image_{part}"] for part in ("height", "width", "channels")]
        return {"image": tf.ensure_shape(tf.reshape(pixels, tf.stack(size)), [40, 48, 3])}

    splits = load(str(tfrecorder), batch_size=5, shuffle=False, pre_batching_callback=decoded)
    assert list(splits) == ["train", "validation"]
    np.testing.assert_array_equal(next(iter(splits["train"]))["image"], photos[:5])


@row(
    "TFRecorder",
    '`tfrecorder.inspect(folder, split="train", num_records=3, output_dir="out")`',
)
def test_tfrecorders_check(tfrecorder, tmp_path):
    words = ["show", str(tfrecorder), "--split", "train", "-n", "3", "--export", f"{tmp_path}/out"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "out/examples.csv").read_text().splitlines()) == 4


# --- keras_imagenet, written for TensorFlow 1: its calls in the spelling of TensorFlow 2


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory, photos, serialize):
    folder = tmp_path_factory.mktemp("imagenet")
    for split, count in {"train": 4, "validation": 2}.items():
        for index in range(count):
            with tf.io.TFRecordWriter(f"{folder}/{split}-{index:05d}-of-{count:05d}") as writer:
                for number in range(index * 3, index * 3 + 3):
                    encoded = tf.io.encode_jpeg(photos[number], quality=95).numpy()
                    record = {
                        "image/encoded": [encoded],
                        "image/class/label": [number + 1],
                        "image/class/text": [b"knee pad"],
                    }
                    writer.write(serialize(**record))
    return folder


def get_dataset(folder, subset, size):
    """Return the results of its `_parse_fn` and `resize_and_rescale_image`, in file order."""
    names = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature((), tf.int64),
    }

    def parse(record):
        parsed = tf.io.parse_single_example(record, names)
        image = tf.image.decode_jpeg(parsed["image/encoded"], 3, dct_method="INTEGER_ACCURATE")
        image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), size)
        return image * 2 - 1, tf.one_hot(parsed["image/class/label"] - 1, 30)

    found = sorted(tf.io.gfile.glob(f"{folder}/{subset}-*"))
    return tf.data.TFRecordDataset(found).map(parse).batch(6)


@row(IMAGENET, '`get_dataset(folder, "train", 64)`', '`get_dataset(folder, "validation", 64)`')
@row(IMAGENET, "`resize_and_rescale_image`", "`tf.one_hot(label - 1, 1000)`")
def test_keras_imagenets_batches(imagenet):
    def one_hot(batch):
        return {**batch, "image/class/label": tf.one_hot(batch["image/class/label"] - 1, 30)}

    settings = {
        "batch_size": 6,
        "shuffle": False,
        "features": "image/encoded",
        "label": "image/class/label",
        "image_size": (32, 30),
        "image": {"normalize": "symmetric", "dct_scaling": False},
        "post_batching_callback": one_hot,
    }
    for subset, place, split in (
        ("train", f"{imagenet}/train-*", None),
        ("validation", str(imagenet), "validation"),
    ):
        expected = list(get_dataset(imagenet, subset, (32, 30)))
        batches = list(input_fn(place, split, **settings))
        for (images, labels), (their_images, their_labels) in zip(batches, expected, strict=True):
            np.testing.assert_array_equal(labels, their_labels)
            np.testing.assert_allclose(images, their_images, atol=1.01 / 127.5)  # one grey level


@row("keras_imagenet", "`distort_color`, random crop and mirroring, `label_smoothing`")
def test_keras_imagenets_augmentation(imagenet):
    read = {"features": "image/encoded", "label": "image/class/label", "image_size": (32, 30)}
    chain = ["random_resized_crop", "flip", ("colour", 0.4)]
    plain = input_fn(f"{imagenet}/train-*", batch_size=6, seed=3, **read)
    labels = {"labels": {"one_hot": True, "smoothing": 0.1, "num_classes": 30}}
    changed = input_fn(f"{imagenet}/train-*", batch_size=6, seed=3, augment=chain, **read, **labels)
    for (images, ids), (others, soft) in zip(plain, changed, strict=True):
        assert images.shape == others.shape
        assert not np.array_equal(images, others)
        expected = tf.keras.utils.to_categorical(ids, 30) * 0.9 + 0.1 / 30
        np.testing.assert_allclose(soft, expected, rtol=1e-6)


@row("keras_imagenet", "`train.py`: mixed precision, evaluation, export")
@row("keras_imagenet", "`--optimizer`, `--epsilon`, `--weight_decay`, `--dropout_rate`")
@row("keras_imagenet", "`--lr_sched linear\\|exp`, `--initial_lr`, `--final_lr`")
@row("keras_imagenet", "`--iter_size`")
def test_keras_imagenets_trainer():
    trainer = importlib.import_module("pipelines.examples.imagenet_trainer")
    assert callable(trainer.train)  # tests/pipelines/examples/test_imagenet_trainer.py runs it
    flags = {flag for parameter in trainer.main.params for flag in parameter.opts}
    assert flags >= {
        *("--optimizer", "--epsilon", "--weight-decay", "--dropout", "--schedule"),
        *("--learning-rate", "--final-learning-rate", "--iteration-size", "--batch-size"),
    }


# --- The TFRecord guide


@row(GUIDE, "`tf.data.TFRecordDataset(files)`, `parse_single_example(record, description)`")
@row(GUIDE, "`feature_description`")
@row(TF_DATA, "`list_files(pattern).interleave(TFRecordDataset, cycle_length=4)`")
def test_files_are_parsed_without_a_description(records, files, theirs):
    assert_equal(input_fn(files, batch_size=None, shuffle=False), theirs)
    assert_equal(input_fn(f"{records}/train-*", batch_size=None, shuffle=False), theirs)
    spread = tf.data.Dataset.list_files(f"{records}/train-*").interleave(
        tf.data.TFRecordDataset, cycle_length=4
    )
    assert sorted(numbers(spread.map(parse))) == sorted(numbers(input_fn(f"{records}/train-*")))


@row(GUIDE, '`compression_type="GZIP"`')
def test_gzip_is_recognised_by_the_name(tmp_path, files, theirs):
    path = str(tmp_path / "train.tfrecord.gz")
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        for record in tf.data.TFRecordDataset(files):
            writer.write(record.numpy())
    zipped = tf.data.TFRecordDataset(path, compression_type="GZIP").map(parse)
    assert_equal(input_fn(path, batch_size=None, shuffle=False), zipped)


@row(GUIDE, "`Example.FromString(record)`, to look at it")
def test_records_are_inspected(files):
    done = CliRunner().invoke(app, ["show", files[1], "-n", "1"])
    record = next(iter(tf.data.TFRecordDataset(files[1]))).numpy()
    number = tf.train.Example.FromString(record).features.feature["id"].int64_list.value[0]
    assert f"id      {number}" in done.output, done.output


@row(GUIDE, '`tf.io.decode_jpeg(example["image"])`')
def test_images_are_decoded(imagenet):
    (path,) = tf.io.gfile.glob(f"{imagenet}/train-00000-*")
    record = next(iter(tf.data.TFRecordDataset(path))).numpy()
    stored = tf.train.Example.FromString(record).features.feature["image/encoded"]
    pixels = tf.io.decode_jpeg(stored.bytes_list.value[0], dct_method="INTEGER_ACCURATE")
    ours = next(iter(input_fn(path, batch_size=None, shuffle=False)))["image/encoded"]
    np.testing.assert_array_equal(ours, pixels)


# --- The tf.data guide


@row(TF_DATA, "`shuffle(1000)`, `shuffle(n, reshuffle_each_iteration=True)`")
@pytest.mark.parametrize("shuffle", [1000, "global", True])
def test_shuffles(files, theirs, shuffle):
    ours = input_fn(files, shuffle=shuffle)
    epochs = [numbers(ours), numbers(ours)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(numbers(theirs.shuffle(1000)))
    assert epochs[0] != epochs[1]


@row(TF_DATA, "`repeat(3)`", "`batch(32, drop_remainder=True)`", "`take(100)`, `skip(100)`")
def test_repeats_batches_and_slices(files, theirs):
    settings = {"features": ["id", "weight"], "shuffle": False}
    flat = theirs.map(lambda example: {name: example[name] for name in ("id", "weight")})
    ours = input_fn(files, batch_size=7, repeat=3, **settings)
    assert_equal(ours, flat.batch(7).repeat(3))
    ours = input_fn(files, batch_size=7, remainder="drop", **settings)
    assert_equal(ours, flat.batch(7, drop_remainder=True))
    assert_equal(input_fn(files, "train[:10]", batch_size=4, **settings), flat.take(10).batch(4))
    assert_equal(input_fn(files, "train[10:]", batch_size=4, **settings), flat.skip(10).batch(4))


@row(TF_DATA, "`map(f, num_parallel_calls=AUTOTUNE)`")
def test_maps(files, theirs):
    def double(example):
        return {**example, "weight": example["weight"] * 2}

    expected = theirs.map(double, num_parallel_calls=tf.data.AUTOTUNE).padded_batch(4)
    for hook in ("pre_batching_callback", "post_batching_callback"):
        assert_equal(input_fn(files, batch_size=4, shuffle=False, **{hook: double}), expected)


@row(TF_DATA, "`filter(predicate)`")
def test_filters(files, theirs):
    expected = theirs.filter(lambda example: example["id"] % 3 == 0).padded_batch(4)
    ours = input_fn(files, batch_size=4, shuffle=False, where="id in (0, 3, 6, 9, 12, 15, 18, 21)")
    assert_equal(ours, expected)


@row(TF_DATA, "`shard(num_workers, worker)`")
def test_shards_of_workers(files, theirs):
    found = []
    for worker in range(3):
        context = tf.distribute.InputContext(3, worker, 3)
        found.append(numbers(input_fn(files, batch_size=6, input_context=context)))
        assert len(found[-1]) == len(numbers(theirs.shard(3, worker)))
    assert sorted(itertools.chain.from_iterable(found)) == list(range(NUM))


@row(TF_DATA, "`sample_from_datasets([a, b], [3, 1])`")
def test_mixes(files):
    found = numbers(input_fn(files[:2], weights=[3, 1], batch_size=1, features=["id"]))
    assert sum(n < 8 for n in found) == 3 * sum(n >= 8 for n in found)


@row(TF_DATA, "`as_numpy_iterator()`")
def test_batches_of_numpy(files, theirs):
    ours = trainer_utils.iterate(files, batch_size=4, shuffle=False)
    assert_equal(ours, theirs.padded_batch(4).as_numpy_iterator())


@row(TF_DATA, "`tf.train.Checkpoint(iterator)`")
def test_iterator_resumes_at_its_position(files, theirs):
    settings = {"batch_size": 4, "features": ["id"], "shuffle": False}
    iterator = iter(theirs.map(lambda example: {"id": example["id"]}).batch(4))
    for _ in range(2):
        next(iterator)
    token = input_fn(files, **settings).state(2)
    assert numbers(input_fn(files, **settings, state=token)) == numbers(iterator)
