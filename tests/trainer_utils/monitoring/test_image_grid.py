"""Images of `preview`, read back with PIL."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFont

from trainer_utils import ConfigError, input_fn, iterate
from trainer_utils.core.errors import TfxShardsError
from trainer_utils.monitoring import preview

TEXT_HEIGHT = 12
LINE = TEXT_HEIGHT + 2  # the height of the text below an image, with its margin


def pixels_of(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def cell(grid: np.ndarray, row: int, column: int, *, line: int = LINE) -> np.ndarray:
    """Return one of the photos of 40 x 48 in a grid with margins of 2."""
    top, left = row * (44 + line) + 2, column * 52 + 2
    return grid[top : top + 40, left : left + 48]


def text_below(grid: np.ndarray, row: int, column: int) -> np.ndarray:
    top, left = row * (44 + LINE) + 44, column * 52 + 2
    return grid[top : top + TEXT_HEIGHT, left : left + 48]


def drawn(text: str) -> np.ndarray:
    """Return Pillow's drawing of a string in the width of a photo."""
    strip = Image.new("RGB", (48, TEXT_HEIGHT), "white")
    ImageDraw.Draw(strip).text((0, 0), text, fill="black", font=ImageFont.load_default())
    assert np.asarray(strip).min() < 128
    return np.asarray(strip)


def test_the_first_images_are_in_rows_with_labels_below(datum_photos):
    dataset = input_fn(datum_photos, features="image", label="label", shuffle=False, batch_size=4)
    grid = pixels_of(preview(dataset, rows=2, columns=3))
    assert grid.shape == (2 * (44 + LINE), 3 * 52, 3)
    photos, labels = next(dataset.unbatch().batch(6).as_numpy_iterator())
    for index in range(6):
        row, column = divmod(index, 3)
        np.testing.assert_array_equal(cell(grid, row, column), photos[index])
        np.testing.assert_array_equal(text_below(grid, row, column), drawn(str(labels[index])))
    assert len(np.unique(labels)) == 3


def test_it_finds_images_and_labels_in_a_dict(datum_photos):
    dataset = input_fn(datum_photos, batch_size=None, shuffle=False)
    as_pair = input_fn(datum_photos, batch_size=3, features="image", label="label", shuffle=False)
    assert preview(dataset) == preview(as_pair)
    assert preview(dataset, label="id") != preview(dataset)


def test_images_of_mixed_sizes_are_centred_in_their_cells(photos):
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


@pytest.mark.parametrize(
    "options", [{"rows": 0}, {"columns": 1.5}, {"image": "photo"}, {"label": "grade"}]
)
def test_invalid_options_are_refused(datum_photos, options):
    with pytest.raises(ConfigError) as caught:
        preview(iterate(datum_photos), **options)
    assert {caught.value.setting: caught.value.value} == options


def test_a_dataset_without_images_is_refused(datum_photos, subtests):
    for settings in ({"features": ["id"]}, {"split": "train[:0]"}):
        with subtests.test(settings=settings), pytest.raises(TfxShardsError):
            preview(iterate(datum_photos, **settings))


def test_arrays_are_drawn_like_tensors_and_to_a_file(datum_photos, tmp_path):
    settings = {"features": "image", "label": "label", "batch_size": 4, "shuffle": False}
    drawn_of = [
        preview(read(datum_photos, "train", **settings), path=str(tmp_path / read.__name__))
        for read in (input_fn, iterate)
    ]
    assert drawn_of[0] == drawn_of[1] == (tmp_path / "iterate").read_bytes()


@pytest.mark.parametrize(("label", "shown"), [("Église", "Eglise"), ("日 1\n", "? 1?")])
def test_labels_use_the_letters_of_the_font(photos, label, shown):
    dataset = tf.data.Dataset.from_tensors((photos[0], 0))
    grid = pixels_of(preview(dataset, labels=[label]))
    np.testing.assert_array_equal(text_below(grid, 0, 0), drawn(shown))
