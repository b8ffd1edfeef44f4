"""Augmentation through `input_fn`: equal for any division of the work, and soft labels."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.make import refusing
from tests.trainer_utils.reading.jpegs import encode
from trainer_utils import input_fn, iterate, plan
from trainer_utils.format import Feature
from trainer_utils.options.augmentation import NAMES

COUNT, BATCH = 22, 12
CHAIN = ["random_resized_crop", "flip", ("colour", 0.4), "cutout", "mixup", "cutmix"]
LABEL = Feature(type="int", extra={"num_classes": 3})
IMAGE = Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed", "formats": ["JPEG"]})


@pytest.fixture(scope="module")
def uri(tmp_path_factory, photos, write_dataset) -> str:
    rows = [
        {"id": [n], "label": [n % 3], "image": [encode(photo)]}
        for n, photo in enumerate(photos[:COUNT])
    ]
    features = {"image": IMAGE, "label": LABEL, "id": Feature(type="int")}
    folder = tmp_path_factory.mktemp("augmented")
    return write_dataset(folder, {"train": [rows[:9], rows[9:]]}, features)


def read(uri: str, workers: int = 1, worker: int = 0, replicas: int | None = None, **settings):
    context = tf.distribute.InputContext(workers, worker, replicas or workers)
    chosen = {"augment": CHAIN, "batch_size": BATCH, "image_size": (24, 24), **settings}
    features = ["image", "id"]
    return input_fn(uri, features=features, label="label", input_context=context, **chosen)


def steps(dataset, elements_per_step: int = 1) -> list[dict[int, tuple[np.ndarray, np.ndarray]]]:
    """Return the result of each record, step by step, without rows of weight 0."""
    found = []
    for index, (inputs, labels, *mask) in enumerate(dataset.as_numpy_iterator()):
        if index % elements_per_step == 0:
            found.append({})
        kept = mask[0] > 0 if mask else np.ones(len(labels), bool)
        rows = zip(inputs["id"][kept], inputs["image"][kept], labels[kept], strict=True)
        found[-1] |= {int(number): (image, label) for number, image, label in rows}
    return found


def assert_same(one, other) -> None:
    assert [set(step) for step in one] == [set(step) for step in other]
    for step, same in zip(one, other, strict=True):
        for number, (image, label) in step.items():
            np.testing.assert_array_equal(image, same[number][0])
            np.testing.assert_array_equal(label, same[number][1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "divisions"),
    [
        ({"shuffle": True}, [(3, 3), (1, 2)]),
        ({"shuffle": "global", "remainder": "pad"}, [(2, 2)]),
        ({"shuffle": False}, [(1, 3)]),
    ],
)
def test_records_are_mixed_alike_on_any_number_of_workers(uri, settings, divisions):
    whole = steps(read(uri, **settings))
    assert len(whole) == 2
    for workers, replicas in divisions:
        each = replicas // workers
        parts = [
            steps(read(uri, workers, worker, replicas, **settings), each)
            for worker in range(workers)
        ]
        together = [
            {number: row for part in parts for number, row in part[step].items()}
            for step in range(len(whole))
        ]
        assert_same(whole, together)
    first = [label.max() for _, label in whole[0].values()]
    assert any(0 < value < 1 for value in first)
    assert all(label.max() == 1 for _, label in whole[1].values())  # not a full batch


def test_epochs_augment_differently_and_seeds_repeat_it(uri, subtests):
    def epoch(dataset):
        return {number: row[0].tobytes() for step in steps(dataset) for number, row in step.items()}

    chain = {"augment": "random_resized_crop"}
    one, other, in_order = (read(uri, **chain, shuffle=how) for how in (True, True, False))
    first, second = epoch(one), epoch(one)
    assert len(first.items() & second.items()) <= 1
    assert [epoch(other), epoch(other)] == [epoch(in_order), epoch(in_order)] == [first, second]
    twice = steps(read(uri, **chain, repeat=2))
    assert {**twice[2], **twice[3]}.keys() == first.keys()
    for step, whole in zip(twice, (first, first, second, second), strict=True):
        with subtests.test(step=step):
            assert all(image.tobytes() == whole[number] for number, (image, _) in step.items())
    assert len(epoch(read(uri, **chain, seed=1)).items() & first.items()) <= 1


def test_values_are_normalised_after_the_chain(uri):
    settings = {"augment": ["flip", ("colour", 0.4)], "shuffle": False}
    plain = steps(read(uri, **settings))
    floats = steps(read(uri, image={"normalize": "symmetric", "dtype": "bfloat16"}, **settings))
    for number, (image, _) in plain[0].items():
        normal = floats[0][number][0]
        assert normal.dtype == tf.bfloat16.as_numpy_dtype
        np.testing.assert_allclose(normal.astype(np.float64), image / 127.5 - 1, atol=4e-3)


def test_rows_that_cannot_be_mixed_in_pairs_are_refused(uri, subtests):
    for settings in ({"batch_size": 9}, {"batch_size": 40}, {"batch_size": 12, "workers": 12}):
        for use in (read, plan):
            with subtests.test(use=use):
                mixing = {"augment": "mixup", "label": "label"} if use is plan else {}
                with refusing("batch_size"):
                    use(uri, **mixing, **settings)


def segmentation(tmp_path, photos, write_dataset) -> str:
    rows = []
    for n, photo in enumerate(photos[:8]):
        labels = np.full((40, 48), 1 + n % 3, np.uint8)
        labels[:, :24] = 7  # the left half
        pixels = np.where(labels[..., None] == 7, 250, photo // 2).astype(np.uint8)
        rows.append(
            {
                "image": [encode(pixels, "PNG")],
                "segmentation": [encode(labels, "PNG")],
                "label": [n % 3],
                "xmin": [0.0, 0.25][: 1 + n % 2],
                "xmax": [0.5, 0.75][: 1 + n % 2],
            }
        )
    side = Feature(type="float", shape=(1,), dense=False)
    features = {
        "image": Feature(type="string", shape=(40, 48, 3), extra={"formats": ["PNG"]}),
        "segmentation": Feature(
            type="string", shape=(40, 48), extra={"label_map": True, "formats": ["PNG"]}
        ),
        "label": LABEL,
        "xmin": side,
        "xmax": side,
    }
    return write_dataset(tmp_path, {"train": [rows]}, features)


def test_label_maps_and_boxes_follow_their_image(tmp_path, photos, write_dataset, subtests):
    uri = segmentation(tmp_path, photos, write_dataset)
    settings = {"batch_size": 8, "image_size": (40, 48)}
    names = ["image", "segmentation"]
    chain = ["flip", ("rotation", 40), ("colour", 0.2)]
    (batch,) = input_fn(uri, features=names, augment=chain, **settings).as_numpy_iterator()
    is_seven = batch["segmentation"][..., 0] == 7
    is_bright = batch["image"].min(axis=-1) > 150
    assert 0.3 < is_seven.mean() < 0.6
    assert (is_seven != is_bright).mean() < 0.03
    names = ["image", "xmin", "xmax"]
    lefts = set()
    for chain, seed in itertools.product((["flip"], ["flip", "colour"]), range(5)):
        with subtests.test(chain=chain):
            dataset = input_fn(uri, features=names, augment=chain, seed=seed, **settings)
            (batch,) = dataset.as_numpy_iterator()
            for image, left, right in zip(
                batch["image"], batch["xmin"], batch["xmax"], strict=True
            ):
                is_mirrored = image[:, :24].mean() < image[:, 24:].mean()
                lefts.add(is_mirrored)
                box = [(0.5, 1.0), (0.25, 0.75)] if is_mirrored else [(0.0, 0.5), (0.25, 0.75)]
                found = list(zip(left.tolist(), right.tolist(), strict=True))
                assert found in (box, [box[0], (0.0, 0.0)])
    assert lefts == {True, False}


OPERATIONS = sorted({*NAMES} - {"color", "rotate", "gray", "mixup", "cutmix"})


def test_grey_images_of_any_format_take_every_operation(tmp_path, photos, write_dataset, subtests):
    """Test with and without formats in the dataset's metadata."""
    kinds = ["JPEG", "PNG", "GIF", "BMP"]
    rows = [{"image": [encode(photo, kind)]} for photo, kind in zip(photos[:4], kinds, strict=True)]
    features = {"image": Feature(type="string", shape=(40, 48, 3))}
    folder = write_dataset(tmp_path, {"train": [rows]}, features)
    for operation in OPERATIONS:
        with subtests.test(operation=operation):
            chosen = {"image_size": (24, 24), "image": {"channels": 1}, "augment": [operation]}
            (batch,) = iterate(folder, features="image", batch_size=4, **chosen)
            assert batch.shape == (4, 24, 24, 1), operation
