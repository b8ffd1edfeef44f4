"""What Python gives, as a table and options."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines.tools.conversion.dry_run import plan_conversion
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
    (tmp_path / "a" / "b").mkdir(parents=True)
    paths = [str(tmp_path / "a" / "1.jpg"), str(tmp_path / "a" / "b" / "2.jpg"), "c/3.jpg"]
    paths[1] = f"file://{paths[1]}"
    frame = pd.DataFrame({"image_uri": paths, "tags": [["x"], ["y"], []]})
    staged = stage(frame, str(tmp_path / "out"), kind=None, options={})
    assert staged.kind == "image"
    assert staged.options["image_roots"] == sorted([os.getcwd(), str(tmp_path / "a")])
    read = pd.read_parquet(staged.source)
    assert read["image_uri"].tolist() == paths


def test_folders_that_are_gone_are_no_roots_and_their_files_are_rejects(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (9, 8)).save(tmp_path / "a" / "1.png")
    for there in ([], [str(tmp_path / "a" / "1.png")]):
        frame = pd.DataFrame({"image_uri": [*there, str(tmp_path / "gone" / "2.png")]})
        staged = stage(frame, str(tmp_path / "out"), kind=None, options={})
        planned = plan_conversion(staged.source, kind=staged.kind, **staged.options)
        assert planned.rejects == {"FILE_NOT_FOUND": 1}
        assert planned.found == len(frame)


def test_a_list_of_paths_is_an_input(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path in paths:
        Image.new("RGB", (9, 8)).save(path)
    staged = stage([paths[0], *map(str, paths[1:])], str(tmp_path / "out"), kind=None, options={})
    planned = plan_conversion(staged.source, kind=staged.kind, **staged.options)
    assert (planned.kind, planned.rejects) == ("image", {})
    assert sum(split.records for split in planned.splits.values()) == 5
    with pytest.raises(InputError, match=r"got 'b\.csv' \(place 1\)"):
        stage(["a.jpg", "b.csv"], str(tmp_path / "out"), kind=None, options={})


def test_shares_of_one_are_what_whole_numbers_are(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.jpg").write_bytes(b"x")
    planned = [
        plan_conversion(str(tmp_path), splits=splits).splits
        for splits in ({"train": 8, "eval": 2}, {"train": 0.8, "eval": 0.2})
    ]
    assert planned[0] == planned[1]
    for wrong in ({"train": 0.8, "eval": 0.3}, {"train": 1.5}, {"train": float("nan")}):
        with pytest.raises(ConfigError, match="splits"):
            plan_conversion(str(tmp_path), splits=wrong)


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
