"""Raw inputs give the batches of the dataset that a conversion makes of them, value for value."""

import pytest

from tests.components.raw_inputs.raw_folders import LAYOUTS
from tests.components.raw_inputs.raw_runs import assert_same_batches, convert
from trainer_utils import iterate
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.raw_inputs import open_raw

SIZE = {"batch_size": 4, "image_size": (16, 16)}


@pytest.mark.parametrize("shuffle", [False, "global"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_gives_the_batches_of_its_conversion(layout, shuffle, tmp_path):
    case = LAYOUTS[layout]
    source = case.make(tmp_path / "in")
    dataset = convert(source, tmp_path / "out", **case.conversion)
    own = {} if case.is_audio else {"image_size": (16, 16), "image": {"channels": case.channels}}
    for split in open_dataset(dataset).records:
        count = assert_same_batches(
            str(source),
            dataset,
            conversion=case.conversion,
            split=split,
            batch_size=3,
            shuffle=shuffle,
            **own,
        )
        assert count == len(iterate(dataset, split, batch_size=3, **own))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_has_the_features_of_its_conversion(layout, tmp_path):
    case = LAYOUTS[layout]
    source = case.make(tmp_path / "in")
    dataset = open_dataset(convert(source, tmp_path / "out", **case.conversion))
    raw = open_raw(str(source), case.conversion)
    assert raw.records == dataset.records
    assert raw.vocabularies == dataset.vocabularies
    assert raw.features.keys() == dataset.features.keys()
    kinds = [
        {n: (f.type, len(f.shape), f.dense, f.has_pixels) for n, f in one.features.items()}
        for one in (raw, dataset)
    ]
    assert kinds[0] == kinds[1]
    assert raw.listing == dataset.listing
