"""What Python gives, as a table and options."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.tools.conversion.staging import stage
from trainer_utils.format import ConfigError, InputError


def test_a_folder_behind_a_link_is_a_root_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cwd", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "cwd" / "link").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "cwd")
    whole = [str(tmp_path / "cwd" / "link" / "1.jpg")]
    staged = stage(pd.DataFrame({"image": whole}), "out", kind=None, options={})
    assert staged.options["image_roots"] == [str(tmp_path / "cwd" / "link")]
    rows = [{"image": whole[0]}, {"image": "2.jpg"}]
    staged = stage(rows, "out", kind=None, options={})
    assert staged.options["image_roots"] == [str(tmp_path / "cwd"), str(tmp_path / "cwd" / "link")]


def test_a_path_stays_what_it_is() -> None:
    staged = stage("photos/", "out", kind=None, options={"seed": 1})
    assert (staged.source, staged.kind, staged.options) == ("photos/", None, {"seed": 1})


def test_a_plain_frame_is_kept_by_pandas_itself_with_the_folders_of_its_files(
    tmp_path: Path,
) -> None:
    paths = [str(tmp_path / "a" / "1.jpg"), str(tmp_path / "a" / "b" / "2.jpg"), "c/3.jpg"]
    frame = pd.DataFrame({"image_uri": paths, "tags": [["x"], ["y"], []]})
    staged = stage(frame, str(tmp_path / "out"), kind=None, options={})
    assert staged.kind == "image"
    assert staged.options["image_roots"] == sorted([os.getcwd(), str(tmp_path / "a")])
    read = pd.read_parquet(staged.source)
    assert read["image_uri"].tolist() == paths


def test_a_frame_whose_columns_have_numbers_for_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got 0\. Rename them: frame\.columns"):
        stage(pd.DataFrame([["a", 1]]), str(tmp_path), kind=None, options={})


@pytest.mark.parametrize("cell", [np.eye(2), [[1, 2], [3, 4]], [np.zeros(2)]])
def test_a_frame_of_arrays_goes_row_by_row(cell: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a b", "c d"], "x": [cell, cell]})
    if isinstance(cell, list):
        with pytest.raises(InputError, match=r"'x'.*list of lists"):
            stage(frame, str(tmp_path), kind=None, options={})
        return
    staged = stage(frame, str(tmp_path), kind=None, options={"splits": {"train": 1}})
    assert staged.kind == "text"
    assert staged.options == {
        "splits": {"train": 1},
        "columns": {},
        "tensors": {"x": "float64[2,2]"},
    }


def test_a_wrong_option_is_refused_before_a_stream_is_read(tmp_path: Path) -> None:
    def rows() -> Any:
        raise AssertionError("read")
        yield

    with pytest.raises(ConfigError, match="nonsense"):
        stage(rows(), str(tmp_path / "out"), kind=None, options={"nonsense": 1})
    with pytest.raises(ConfigError, match="got int"):
        stage(42, str(tmp_path / "out"), kind=None, options={})
    assert os.listdir(tmp_path) == []


def test_a_split_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"got 'holdout'.*DatasetWriter"):
        stage({"train": [{"a": 1}], "holdout": [{"a": 1}]}, str(tmp_path), kind="text", options={})
    assert os.listdir(tmp_path) == []
