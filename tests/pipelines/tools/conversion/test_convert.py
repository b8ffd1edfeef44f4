"""Conversions through TFX, in this process."""

import os

import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
from pipelines.tools.conversion.convert import point_to
from trainer_utils.dataset.location import newest_dataset, read_manifest
from trainer_utils.format import ConfigError, InputError


@pytest.fixture(scope="module")
def sounds(clips, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, pipelines.convert(clips, str(out), splits={"train": 3, "eval": 1}, num_shards=2)


def test_a_folder_of_sounds_is_recognised_and_converted(sounds):
    out, uri = sounds
    manifest = read_manifest(uri)
    assert manifest.producer == "ShardBalancer"
    assert manifest.splits == ("train", "eval")
    assert manifest.total.written == 12
    assert {len(manifest.shards_of(split)) for split in manifest.splits} == {2}
    assert os.path.realpath(out / "latest") == os.path.realpath(uri)


@pytest.mark.slow
def test_a_training_split_without_an_example_is_an_error(pictures, tmp_path):
    for split in ("train", "val"):
        (tmp_path / "in" / split / "a").mkdir(parents=True)
    first = next(pictures.rglob("*.png"))
    (tmp_path / "in/val/a/1.png").write_bytes(first.read_bytes())
    (tmp_path / "in/train/a/2.png").write_bytes(b"no image")
    for _ in range(2):  # also where it comes from the cache
        with pytest.raises(InputError, match="'train'"):
            pipelines.convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=0.5)
    assert not (tmp_path / "out/latest").exists()


def test_a_place_that_cannot_be_written_to_is_refused(pictures, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (pictures / "out", tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(ConfigError) as raised:
            pipelines.convert(pictures, str(out))
        assert (raised.value.setting, raised.value.value) == ("out", str(out))
    with pytest.raises(InputError, match="found none"):
        pipelines.convert(tmp_path / "none", str(tmp_path / "out"))


def make(tmp_path, number):
    uri = tmp_path / f"out/artifacts/ShardBalancer/balanced_examples/{number}"
    uri.mkdir(parents=True)
    (uri / "manifest.json").write_text("{}")
    return str(uri)


def test_the_link_leads_to_the_newest_and_moves_with_its_folder(tmp_path):
    out = str(tmp_path / "out")
    first, second = make(tmp_path, 3), make(tmp_path, 6)
    point_to(out, first)
    assert newest_dataset(out) == newest_dataset(f"{out}/latest/") == first
    point_to(out, second)
    assert newest_dataset(out) == second
    assert sorted(os.listdir(out)) == ["artifacts", "latest"]
    os.rename(out, tmp_path / "moved")
    assert newest_dataset(str(tmp_path / "moved")) == second.replace("/out/", "/moved/")
