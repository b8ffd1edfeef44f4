"""Places and settings that raw inputs cannot have are refused in a sentence with a cure."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.components.raw_inputs.raw_folders import classes
from tests.components.raw_inputs.raw_runs import convert
from tests.make import write_files
from trainer_utils import ConfigError, DatasetError, iterate
from trainer_utils.core.errors import InputError
from trainer_utils.dataset.raw_inputs import is_raw
from trainer_utils.format import naming

SETTINGS: dict[str, Any] = {"batch_size": 4, "image_size": (16, 16)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("raw") / "photos"
    classes(folder)
    return folder


@pytest.mark.parametrize("misspelt", ["photso", "photso/", "Photos", "photso/a", "photos/../phots"])
@pytest.mark.parametrize("conversion", [None, {"splits": {"train": 1}}])
def test_misspelt_folder_is_answered_with_its_name(misspelt, conversion, photos):
    with pytest.raises((DatasetError, InputError), match=f"Did you mean '{photos}'"):
        iterate(f"{photos.parent}/{misspelt}", "train", conversion=conversion, **SETTINGS)


def test_misspelt_relative_folder_is_answered(photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    with pytest.raises(DatasetError, match=r"Did you mean 'photos'\?"):
        iterate("photso", "train", **SETTINGS)


def test_missing_folder_unlike_any_other_has_no_hint(photos):
    with pytest.raises(DatasetError, match=r"found none$"):
        iterate(str(photos.parent / "xyz"), "train", **SETTINGS)


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ({"split": {"train": 1}}, "splits"),
        ({"resize_short_side": 8}, "resize_shorter_side"),
        ({"sed": 3}, "seed"),
        ({"kind": "imag"}, "image"),
        ({"layout": "foldr"}, "folder"),
    ],
)
def test_misspelt_setting_is_answered_with_its_name(setting, meant, photos):
    with pytest.raises(ConfigError, match=f"Did you mean '{meant}'"):
        iterate(str(photos), "train", conversion=setting, **SETTINGS)


@pytest.mark.parametrize(
    "setting",
    [
        {"group_by": "near_duplicates"},
        {"stratify_by": "label"},
        {"exclude": ["a/00.jpg"]},
        {"relabel": {"a": "b"}},
        {"where": "height > 1"},
        {"add": ["elsewhere"]},
        {"update": True},
        {"beam_pipeline_args": ["--runner=DirectRunner"]},
        {"metadata": "store.db"},
    ],
)
def test_setting_without_meaning_for_raw_inputs_is_refused(setting, photos):
    (name,) = setting
    with pytest.raises(ConfigError, match=rf"conversion\['{name}'\]: expected none for raw inputs"):
        iterate(str(photos), "train", conversion=setting, **SETTINGS)


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def without_metadata(folder: Path) -> None:
    for path in folder.glob("*.*"):
        path.unlink()


def without_shards(folder: Path) -> None:
    for path in folder.glob("Split-*"):
        shutil.rmtree(path)


def without_manifest_and_shards(folder: Path) -> None:
    without_manifest(folder)
    without_shards(folder)


def unfinished(folder: Path) -> None:
    without_metadata(folder)
    without_shards(folder)
    (folder / naming.WORKING_FOLDER).mkdir()


@pytest.mark.parametrize("has_photos", [False, True])
@pytest.mark.parametrize(
    "damage",
    [without_manifest, without_metadata, without_shards, without_manifest_and_shards, unfinished],
)
def test_damaged_dataset_is_not_taken_for_raw_files(
    damage: Callable[[Path], None], has_photos, photos, tmp_path
):
    dataset = Path(convert(photos, tmp_path / "out"))
    damage(dataset)
    if has_photos:
        classes(dataset / "more")
    assert not is_raw(str(dataset))
    with pytest.raises((ConfigError, DatasetError, InputError)):
        iterate(str(dataset), "train", conversion={"splits": {"train": 1}}, **SETTINGS)


@pytest.mark.parametrize("splits", [None, {"train": 1}])
def test_zip_file_is_to_be_unpacked(splits, tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("a/1.jpg", b"1234")
    conversion = None if splits is None else {"splits": splits}
    with pytest.raises(InputError, match=r"a zip file\. Unpack it, and pass the folder"):
        iterate(str(tmp_path / "photos.zip"), "train", conversion=conversion, **SETTINGS)


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl"])
def test_table_of_texts_is_refused(name, tmp_path):
    rows = {
        "rows.csv": "text,label\none two,1\nthree four,0\n",
        "rows.tsv": "text\tlabel\none two\t1\nthree four\t0\n",
        "rows.jsonl": '{"text": "one two"}\n{"text": "three four"}\n',
    }
    write_files(tmp_path / "in", {name: rows[name]})
    for place in (tmp_path / "in", tmp_path / "in" / name):
        with pytest.raises(InputError, match=r"tables of text .* tfx-shards convert"):
            iterate(str(place), "train", **SETTINGS)
