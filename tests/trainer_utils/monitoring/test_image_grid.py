"""`preview` as PIL reads it back."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from trainer_utils import ConfigError, DatasetError, input_fn, iterate
from trainer_utils.monitoring import preview

TEXT_HEIGHT = 12
LINE = TEXT_HEIGHT + 2  # of text below an image, with its margin


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def cell(grid: np.ndarray, row: int, column: int, *, line: int = LINE) -> np.ndarray:
    """One of the photos of 40 x 48 in a grid with margins of 2."""
    top, left = row * (44 + line) + 2, column * 52 + 2
    return grid[top : top + 40, left : left + 48]


def text_below(grid: np.ndarray, row: int, column: int) -> np.ndarray:
    top, left = row * (44 + LINE) + 44, column * 52 + 2
    return grid[top : top + TEXT_HEIGHT, left : left + 48]


def drawn(text: str) -> np.ndarray:
    """What Pillow makes of a text in the width of a photo."""
    strip = Image.new("RGB", (48, TEXT_HEIGHT), "white")
    ImageDraw.Draw(strip).text((0, 0), text, fill="black", font=ImageFont.load_default())
    assert np.asarray(strip).min() < 128
    return np.asarray(strip)


def test_the_first_images_lie_in_rows_with_labels_below(datum_photos):
    dataset = input_fn(datum_photos, features="image", label="label", shuffle=False, batch_size=4)
    grid = pixels_of(preview(dataset, rows=2, columns=3))
    assert grid.shape == (2 * (44 + LINE), 3 * 52, 3)
    photos, labels = next(dataset.unbatch().batch(6).as_numpy_iterator())
    for index in range(6):
        row, column = divmod(index, 3)
        np.testing.assert_array_equal(cell(grid, row, column), photos[index])
        np.testing.assert_array_equal(text_below(grid, row, column), drawn(str(labels[index])))
    assert len(np.unique(labels)) == 3


@pytest.mark.parametrize("batch_size", [None, 7])
def test_it_finds_images_and_labels_in_a_dict(datum_photos, batch_size):
    dataset = input_fn(datum_photos, batch_size=batch_size, shuffle=False)
    as_pair = input_fn(datum_photos, batch_size=3, features="image", label="label", shuffle=False)
    assert preview(dataset) == preview(as_pair)
    assert preview(dataset, label="id") != preview(dataset)


def test_images_of_mixed_sizes_lie_in_the_middle_of_their_cells(photos):
    small = photos[1][:20, :24]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([photos[0], small]), output_signature=tf.TensorSpec((None, None, 3), tf.uint8)
    )
    grid = pixels_of(preview(dataset))
    assert grid.shape == (44, 104, 3)
    np.testing.assert_array_equal(cell(grid, 0, 0, line=0), photos[0])
    expected = np.full((40, 48, 3), 255, np.uint8)
    expected[10:30, 12:36] = small
    np.testing.assert_array_equal(cell(grid, 0, 1, line=0), expected)


def test_grey_and_normalised_images_are_shown(photos):
    grey = photos[0][:, :, :1]
    shown = cell(pixels_of(preview(tf.data.Dataset.from_tensors(grey))), 0, 0, line=0)
    np.testing.assert_array_equal(shown, np.repeat(grey, 3, axis=2))
    floats = (photos[0].astype(np.float32) - 127.5) / 50
    shown = cell(pixels_of(preview(tf.data.Dataset.from_tensors(floats))), 0, 0, line=0)
    least, most = int(photos[0].min()), int(photos[0].max())
    expected = (photos[0].astype(float) - least) * 255 / (most - least)
    assert np.abs(shown - expected).max() <= 0.51


def test_it_writes_a_file(datum_photos, tmp_path):
    dataset = input_fn(datum_photos, features="image", shuffle=False)
    png = preview(dataset, path=str(tmp_path / "p.png"))
    assert (tmp_path / "p.png").read_bytes() == png


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"rows": 0}, ConfigError, "rows: .* got 0"),
        ({"columns": 1.5}, ConfigError, "columns: .* got 1.5"),
        ({"image": "photo"}, ConfigError, "image: expected one of .*image.* got 'photo'"),
        ({"label": "grade"}, ConfigError, "label: expected one of .* got 'grade'"),
    ],
)
def test_what_cannot_be_shown_is_refused(datum_photos, options, error, match):
    with pytest.raises(error, match=match):
        preview(input_fn(datum_photos), **options)


def test_a_dataset_without_images_is_refused(datum_photos):
    with pytest.raises(DatasetError, match="expected a feature with images, got id"):
        preview(input_fn(datum_photos, features=["id"]))
    with pytest.raises(DatasetError, match="got an empty one"):
        preview(input_fn(datum_photos, "train[:0]"))


def test_arrays_are_drawn_as_tensors_are(datum_photos):
    settings = {"features": "image", "label": "label", "batch_size": 4, "shuffle": False}
    drawn_of = [preview(read(datum_photos, "train", **settings)) for read in (input_fn, iterate)]
    assert drawn_of[0] == drawn_of[1]


@pytest.mark.parametrize(
    ("label", "shown"), [("Église", "Eglise"), ("日 1\n", "? 1?"), ("Cat", "Cat")]
)
def test_a_label_is_written_in_the_letters_that_there_are(photos, label, shown):
    dataset = tf.data.Dataset.from_tensors((photos[0], 0))
    grid = pixels_of(preview(dataset, labels=[label]))
    np.testing.assert_array_equal(text_below(grid, 0, 0), drawn(shown))


def test_a_long_label_ends_with_its_cell(photos):
    dataset = tf.data.Dataset.from_tensor_slices((np.stack(photos[:2]), [0, 1]))
    grid = pixels_of(preview(dataset, labels=["W" * 40, "cat"]))
    np.testing.assert_array_equal(text_below(grid, 0, 1), drawn("cat"))
    assert grid[44:, 50:54].min() == 255


def test_class_names_of_the_dataset_are_written(tmp_path, photos):
    import trainer_utils

    with trainer_utils.DatasetWriter(
        str(tmp_path), images=["image"], vocabulary={"label": ["cat", "dog"]}
    ) as writer:
        for number in range(4):
            writer.write("train", {"image": photos[0], "label": ["cat", "dog"][number % 2]})
    for settings in ({"features": "image", "label": "label"}, {}):
        dataset = input_fn(str(tmp_path), shuffle=False, **settings)
        assert preview(dataset) == preview(dataset, labels=["cat", "dog"])
        assert preview(dataset) != preview(dataset, labels=[])
