"""What `augment=` takes, and what it refuses."""

import pytest

from trainer_utils import ConfigError, InputOptions
from trainer_utils.reading.augmentation.chain import Augmentation, Operation

CROP = "random_resized_crop"


@pytest.mark.parametrize(
    ("chain", "flip", "crops", "flips", "pixels", "mixing"),
    [
        (None, None, False, False, [], []),
        (None, True, False, True, [], []),
        ([], None, False, False, [], []),
        (CROP, None, True, True, [], []),
        (CROP, False, True, False, [], []),
        ([CROP], None, True, False, [], []),
        ([CROP], True, True, True, [], []),
        ([("colour", 0.2), "flip"], None, False, True, [("colour", (0.2, 0.0))], []),
        ("color", None, False, False, [("colour", (0.4, 0.0))], []),
        ((["color", 1, 0.5],), None, False, False, [("colour", (1.0, 0.5))], []),
        (
            ["gray", ("rotate", 30), "blur", ("cutout", 0.5)],
            None,
            False,
            False,
            [("grey", (0.1,)), ("rotation", (30.0,)), ("blur", (2.0, 0.5)), ("cutout", (0.5, 1.0))],
            [],
        ),
        (
            [("randaugment", 3, 15), "mixup", ("cutmix", 0.5)],
            None,
            False,
            False,
            [("randaugment", (3, 15.0))],
            [("mixup", (0.2,)), ("cutmix", (0.5,))],
        ),
    ],
)
def test_a_chain_is_read_in_the_order_in_which_it_is_carried_out(
    chain, flip, crops, flips, pixels, mixing
):
    expected = Augmentation(
        crops,
        flips,
        tuple(Operation(*one) for one in pixels),
        tuple(Operation(*one) for one in mixing),
    )
    assert Augmentation.of(chain, flip=flip) == expected


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
        (["mixup", "grey"], r"'grey' before 'mixup', which mixes whole batches"),
    ],
)
def test_what_is_no_chain_is_refused(chain, message):
    with pytest.raises(ConfigError, match=message):
        InputOptions(augment=chain, image_size=(8, 8), label="label")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"augment": [CROP]}, "image_size: expected .* since augment is set"),
        ({"augment": ["flip"], "flip": False}, "flip: expected True or None"),
        ({"augment": "mixup"}, "label: expected the feature of the classes, since mixup changes"),
        ({"augment": "mixup", "label": "y", "batch_size": None}, "batch_size: expected no None"),
        ({"augment": "cutmix", "label": "y", "on_corrupt": "skip"}, "on_corrupt: expected 'raise'"),
        ({"one_hot": True}, "label: expected the feature of the classes, since one_hot changes"),
        ({"one_hot": 1}, "one_hot: expected a bool, got 1"),
        ({"label_smoothing": 1.5, "label": "y"}, "label_smoothing: expected float from 0 to 1"),
        ({"num_classes": 0}, "num_classes: expected int at least 1, got 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        InputOptions(**settings)
