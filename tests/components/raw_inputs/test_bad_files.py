"""A file that cannot become a record is an error with its name, or is replaced and counted."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.components.raw_inputs.raw_folders import classes
from tests.components.raw_inputs.raw_runs import batches, convert
from tests.make import jpeg, photo, refusing, wav, write_files
from trainer_utils import ConfigError, CorruptShardError, iterate
from trainer_utils.core.errors import InputError

SETTINGS: dict[str, Any] = {"batch_size": 4, "image_size": (16, 16), "shuffle": False}
ALL = {"splits": {"train": 1}}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    classes(tmp_path / "in")
    bad = {"a/cut.jpg": jpeg(5)[:300], "b/empty.jpg": b"", "b/text.jpg": b"no image at all"}
    write_files(tmp_path / "in", bad)
    return tmp_path / "in"


def test_bad_file_is_an_error_with_name_and_code(photos):
    with pytest.raises(CorruptShardError) as caught:
        [*batches(str(photos), conversion=ALL, **SETTINGS)]
    error = caught.value
    assert error.path in {str(photos / name) for name in ("a/cut.jpg", "b/empty.jpg", "b/text.jpg")}
    assert str(error).startswith(f"{error.path}: ")
    assert any(code in str(error) for code in ("TRUNCATED", "EMPTY_FILE", "NOT_AN_IMAGE"))
    assert "on_corrupt='skip'" in str(error)


@pytest.mark.parametrize("processes", [0, 2])
def test_bad_files_are_replaced_and_counted(processes, photos, tmp_path, caplog):
    convert(photos, tmp_path / "out", max_reject_fraction=0.5, **ALL)
    train = iterate(
        str(photos), "train", conversion=ALL, on_corrupt="skip", processes=processes, **SETTINGS
    )
    with caplog.at_level(logging.WARNING):
        names = [name for batch in train for name in batch["filename"].tolist()]
    assert len(names) == 23
    assert len(set(names)) == 20
    assert len(train.unreadable) == 3
    (line,) = [m for m in caplog.messages if "could not be read" in m]
    assert "epoch 0: 3 of 23 records" in line
    assert "1 EMPTY_FILE, 1 NOT_AN_IMAGE, 1 TRUNCATED" in line


def test_vanished_file_is_named(photos):
    train = iterate(
        str(photos), "train", conversion={"ignore": ["*t.jpg", "*empty*"], **ALL}, **SETTINGS
    )
    (photos / "a/00.jpg").unlink()
    with pytest.raises(CorruptShardError, match=r"a/00\.jpg: VANISHED"):
        list(train)


def test_other_number_of_channels_is_an_error_with_a_cure(tmp_path):
    files = {f"{'ab'[n % 2]}/{n:03d}.png": photo(n, "PNG", mode="L") for n in range(200)}
    write_files(tmp_path, files)
    train = iterate(str(tmp_path), "train", conversion=ALL, on_corrupt="skip", **SETTINGS)
    hidden = train.sources[0].dataset.raw.source_of("train", 3)
    Path(hidden).write_bytes(photo(3, "PNG", mode="RGB"))
    fresh = iterate(str(tmp_path), "train", conversion=ALL, on_corrupt="skip", **SETTINGS)
    with pytest.raises(ConfigError, match=r"expected channels 1 .* got 3.*image=\{'channels': 3\}"):
        list(fresh)
    cured = {**SETTINGS, "image": {"channels": 3}}
    dataset = iterate(str(tmp_path), "train", conversion=ALL, **cured)
    assert sum(len(batch["image"]) for batch in dataset) == 200


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"group_by": "near_duplicates"}, "group_by"),
        ({"stratify_by": "label"}, "stratify_by"),
        ({"exclude": ["a/00.jpg"]}, "exclude"),
        ({"where": "height >= 10"}, "where"),
    ],
)
def test_setting_that_needs_records_is_refused(settings, name, tmp_path):
    classes(tmp_path / "in")
    with pytest.raises(ConfigError, match=rf"conversion\['{name}'\].*tfx-shards convert"):
        iterate(str(tmp_path / "in"), "train", conversion=settings, **SETTINGS)


def test_table_of_texts_is_refused_with_a_cure(tmp_path):
    rows = "\n".join(["text,label", *(f"words {n},{n % 2}" for n in range(9))])
    write_files(tmp_path / "in", {"rows.csv": rows})
    with pytest.raises(InputError, match=r"tables of text .* tfx-shards convert"):
        iterate(str(tmp_path / "in"), "train", batch_size=2)


def test_unknown_setting_of_the_conversion_is_refused(tmp_path):
    classes(tmp_path / "in")
    with pytest.raises(ConfigError, match="resize_shorter_side"):
        iterate(str(tmp_path / "in"), "train", conversion={"resize_short_side": 12}, **SETTINGS)


def test_conversion_of_a_dataset_is_refused(tmp_path):
    classes(tmp_path / "in")
    dataset = convert(tmp_path / "in", tmp_path / "out")
    with refusing("conversion"):
        iterate(dataset, "train", conversion=ALL, **SETTINGS)


def test_packs_of_raw_inputs_are_refused(tmp_path):
    write_files(tmp_path, {f"{n}.wav": wav(n) for n in range(3)})
    with refusing("pack"):
        iterate(str(tmp_path), "train", pack={"feature": "tokens", "length": 8}, batch_size=2)
