"""Valid and invalid values of `augment=`."""

import pytest

from tests.make import refusing
from trainer_utils import InputOptions
from trainer_utils.options.augmentation import Augmentation, Operation

CROP = "random_resized_crop"


def colour(image, rng):
    """Do nothing, under the name of an operation."""
    return image


@pytest.mark.parametrize(
    ("chain", "crops", "flips", "pixels", "mixing"),
    [
        ([], False, False, [], []),
        (CROP, True, True, [], []),
        ("flip", False, True, [], []),
        ([("colour", 0.2), "flip"], False, True, [("colour", (0.2, 0.0))], []),
        ((["color", 1, 0.5],), False, False, [("colour", (1.0, 0.5))], []),
        (["flip", colour, "blur"], False, True, [("colour", (), colour), ("blur", (2.0, 0.5))], []),
        (["gray", ("rotate", 30)], False, False, [("grey", (0.1,)), ("rotation", (30.0,))], []),
        (
            [("randaugment", 3, 15), "mixup", ("cutmix", 0.5)],
            False,
            False,
            [("randaugment", (3, 15.0))],
            [("mixup", (0.2,)), ("cutmix", (0.5,))],
        ),
    ],
)
def test_a_chain_keeps_its_order(chain, crops, flips, pixels, mixing):
    expected = Augmentation(
        crops,
        flips,
        tuple(Operation(*one) for one in pixels),
        tuple(Operation(*one) for one in mixing),
    )
    assert Augmentation.of(chain) == expected


NO_CHAINS = [
    "colur",
    ("colour", 0.4),  # its number is itself no operation
    [("colour", 1.5)],
    [("colour", "much")],
    [("rotation", float("nan"))],
    [("randaugment", True)],
    [("randaugment", 2.5)],
    [("mixup", 0)],
    [("mixup", 1, 1)],
    [(CROP, 0.5)],
    [()],
    [None],
    {"colour": 1},
    ["flip", "flip"],
    ["colour", CROP],
    ["mixup", "grey"],
    [colour, CROP],
    ["mixup", colour],
]


def test_invalid_chains_are_refused(subtests):
    for chain in NO_CHAINS:
        with subtests.test(chain=chain), refusing("augment"):
            InputOptions(augment=chain, image_size=(8, 8), label="label")


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"augment": [CROP]}, "image_size"),
        ({"augment": "mixup"}, "label"),
        ({"augment": "mixup", "label": "y", "batch_size": None}, "batch_size"),
    ],
)
def test_contradicting_settings_are_refused(settings, setting):
    with refusing(setting):
        InputOptions(**settings)
