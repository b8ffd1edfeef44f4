"""A conversion does not silently replace a dataset of another kind."""

import os

import pytest

import pipelines
from tests.make import jpeg, write_files
from trainer_utils import ConfigError
from trainer_utils.dataset.location import newest_dataset


def test_latest_changes_its_kind_only_with_replace(tmp_path):
    photos = write_files(tmp_path / "photos", {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(6)})
    rows = "".join(f"text {n} of many,{n}\n" for n in range(6))
    texts = write_files(tmp_path / "texts", {"t.csv": f"text,stars\n{rows}"})
    out = str(tmp_path / "out")
    first = pipelines.convert(str(photos), out)
    with pytest.raises(ConfigError) as refused:
        pipelines.convert(str(texts), out)
    assert refused.value.setting == "out"
    assert "holds a dataset of kind image, and the input is of kind text" in str(refused.value)
    assert "replace=True (--replace)" in str(refused.value)
    assert os.path.samefile(newest_dataset(out), first)
    second = pipelines.convert(str(texts), out, replace=True)
    assert os.path.samefile(newest_dataset(out), second)
    assert os.path.isdir(first)
    assert pipelines.convert(str(texts), out).cached
    with pytest.raises(ConfigError):
        pipelines.convert(str(photos), out)
