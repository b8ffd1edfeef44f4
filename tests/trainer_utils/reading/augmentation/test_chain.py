"""What `augment=` takes, and what it refuses."""

import pytest

from trainer_utils import ConfigError, InputOptions
from trainer_utils.reading.augmentation import Augmentation, Operation

CROP = "random_resized_crop"


def colour(image, rng):
    """A function with the name of an operation."""
    return image


@pytest.mark.parametrize(
    ("chain", "crops", "flips", "pixels", "mixing"),
    [
        (None, False, False, [], []),
        ([], False, False, [], []),
        (CROP, True, True, [], []),
        ([CROP], True, False, [], []),
        ("flip", False, True, [], []),
        ([("colour", 0.2), "flip"], False, True, [("colour", (0.2, 0.0))], []),
        ("color", False, False, [("colour", (0.4, 0.0))], []),
        ((["color", 1, 0.5],), False, False, [("colour", (1.0, 0.5))], []),
        (colour, False, False, [("colour", (), colour)], []),
        (["flip", colour, "blur"], False, True, [("colour", (), colour), ("blur", (2.0, 0.5))], []),
        (
            ["gray", ("rotate", 30), "blur", ("cutout", 0.5)],
            False,
            False,
            [("grey", (0.1,)), ("rotation", (30.0,)), ("blur", (2.0, 0.5)), ("cutout", (0.5, 1.0))],
            [],
        ),
        (
            [("randaugment", 3, 15), "mixup", ("cutmix", 0.5)],
            False,
            False,
            [("randaugment", (3, 15.0))],
            [("mixup", (0.2,)), ("cutmix", (0.5,))],
        ),
    ],
)
def test_a_chain_is_read_in_the_order_in_which_it_is_carried_out(
    chain, crops, flips, pixels, mixing
):
    expected = Augmentation(
        crops,
        flips,
        tuple(Operation(*one) for one in pixels),
        tuple(Operation(*one) for one in mixing),
    )
    assert Augmentation.of(chain) == expected


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ("colur", r"augment: expected one of .*, got 'colur'. Did you mean 'colour'\?"),
        (["rand_augment"], r"got 'rand_augment'. Did you mean 'randaugment'\?"),
        (("colour", 0.4), r"in a tuple with its numbers such as \('colour', 0.4\), got 0.4"),
        ([("colour", 1.5)], r"'colour': expected strength to be float from 0 to 1, got 1.5"),
        ([("colour", "much")], r"expected strength to be float from 0 to 1, got 'much'"),
        ([("rotation", float("nan"))], r"expected degrees to be float from 0 to 180, got nan"),
        ([("randaugment", True)], r"expected num_ops to be int from 0 to 14, got True"),
        ([("randaugment", 2.5)], r"expected num_ops to be int from 0 to 14, got 2.5"),
        ([("mixup", 0)], r"'mixup': expected alpha to be float from 0.01 to 100, got 0"),
        ([("mixup", 1, 1)], r"expected alpha after 'mixup', got \('mixup', 1, 1\)"),
        ([(CROP, 0.5)], r"expected no numbers after .* crop_area= and crop_aspect= say"),
        ([()], r"got \(\)"),
        ([None], r"got None"),
        ({"colour": 1}, r"got \{'colour': 1\}"),
        (["flip", "flip"], r"'flip' at most once"),
        (["colour", CROP], r"'random_resized_crop' before 'colour', since only that part"),
        (["mixup", "grey"], r"'grey' before 'mixup', which mixes batches"),
        ([colour, CROP], r"'random_resized_crop' before 'a function', since only that part"),
        (["mixup", colour], r"'a function' before 'mixup', which mixes batches"),
    ],
)
def test_what_is_no_chain_is_refused(chain, message):
    with pytest.raises(ConfigError, match=message):
        InputOptions(augment=chain, image_size=(8, 8), label="label")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"augment": [CROP]}, "image_size: expected .* since augment is set"),
        ({"augment": "mixup"}, "label: expected the feature of the classes, since mixup changes"),
        ({"augment": "mixup", "label": "y", "batch_size": None}, "batch_size: expected no None"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        InputOptions(**settings)
