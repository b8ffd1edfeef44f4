"""Raw inputs with `where=` against the dataset of their conversion with the same condition."""

from pathlib import Path

import numpy as np
import pytest

from components.inputs.blob_reader import BlobReader
from tests.components.raw_inputs.raw_runs import assert_equal, assert_same_batches, convert
from tests.make import jpeg, write_files
from trainer_utils import ConfigError, DatasetError, iterate

ROWS = 40
SETTINGS = {"batch_size": 5, "shuffle": "global", "image_size": (8, 8), "seed": 2}


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> tuple[Path, str]:
    """Return photos in class folders, some twice as wide, and the dataset of their conversion."""
    folder = tmp_path_factory.mktemp("filtered")
    files = {
        f"{'abc'[n % 3]}/{n:02d}.jpg": jpeg(n, size=(32 if n % 4 else 64, 24)) for n in range(ROWS)
    }
    write_files(folder / "in", files)
    return folder / "in", convert(folder / "in", folder / "out")


@pytest.fixture
def files_read(monkeypatch) -> list[str]:
    """Return a list of the files that are read from now on."""
    found: list[str] = []
    read = BlobReader.read

    def spy(self, blob, *more):
        found.append(blob.path)
        return read(self, blob, *more)

    monkeypatch.setattr(BlobReader, "read", spy)
    return found


CONDITIONS = ["label == 'b'", "'1.jpg' in filename", "width == 64", "label != 'a' and width < 64"]


@pytest.mark.parametrize("where", CONDITIONS)
def test_filtered_batches_equal_the_conversions(places, where):
    assert assert_same_batches(*places, where=where, split="train", **SETTINGS) > 0


@pytest.mark.parametrize(("where", "reads"), [(CONDITIONS[0], False), (CONDITIONS[2], True)])
def test_listed_features_need_no_files(places, files_read, tmp_path, where, reads):
    iterate(str(places[0]), "train", where=where, cache=tmp_path, **SETTINGS)
    opening = len(files_read)
    iterate(str(places[0]), "train", cache=tmp_path, **SETTINGS)
    sampled = len(files_read) - opening  # to find out the features
    assert (opening > sampled) == reads


def test_record_is_found_by_its_name(places, files_read):
    for place in map(str, places):
        train = iterate(place, "train", **SETTINGS)
        names = [train.record(number)["filename"].decode() for number in (0, 7, -1)]
        del files_read[:]
        for name in names:
            assert train.record(name)["filename"] == name.encode()
        assert len(files_read) in (0, 3)  # of raw inputs
        filtered = train.filter(where="label != 'a'")
        with pytest.raises(DatasetError, match="a/03"):
            filtered.record("a/03.jpg")


def test_token_of_filtered_inputs_resumes_on_the_conversion(places):
    where = CONDITIONS[3]
    raw = iterate(str(places[0]), "train", where=where, **SETTINGS)
    token = raw.state(1)
    resumed = iterate(places[1], "train", where=where, state=token, **SETTINGS)
    for found, expected in zip(resumed, list(raw)[1:], strict=True):
        assert_equal(found, expected)
    with pytest.raises(ConfigError, match="Pass where="):
        iterate(places[1], "train", state=token, **SETTINGS)


def test_filtered_inputs_are_read_from_shards_once_converted(places, tmp_path):
    settings = {**SETTINGS, "where": CONDITIONS[3], "repeat": 3}
    train = iterate(str(places[0]), "train", convert_to=tmp_path / "out", **settings)
    batches = iter(train)
    first = [next(batches) for _ in range(train.input_steps)]
    assert train.conversion.wait(120)
    found = [*first, *batches]
    assert "out" in train.conversion.reads_from
    for one, other in zip(found, iterate(places[1], "train", **settings), strict=True):
        assert_equal(one, other)
    names = np.concatenate([batch["filename"] for batch in first])
    assert len({*names.tolist()}) == len(names) == train.num_records
