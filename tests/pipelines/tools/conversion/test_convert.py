"""Conversions through TFX, in this process."""

import os
import shutil

import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
from pipelines.tools.conversion.convert import point_to
from trainer_utils.dataset.files import read_manifest
from trainer_utils.dataset.location import newest_dataset
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
def test_what_did_not_change_is_not_made_again_and_what_was_removed_is(sounds, clips):
    out, uri = sounds
    options = {"splits": {"train": 3, "eval": 1}, "num_shards": 2}
    assert pipelines.convert(clips, str(out), **options) == uri
    before = (out / "latest/manifest.json").read_bytes()
    shutil.rmtree(uri)
    again = pipelines.convert(clips, str(out), **options)
    assert again != uri
    assert (out / "latest/manifest.json").read_bytes() == before


@pytest.mark.slow
def test_the_uri_is_below_the_folder_as_it_was_given(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    uri = pipelines.convert(str(pictures), "out", stratify=True)
    assert uri.startswith("out/artifacts/ShardBalancer/")
    assert read_manifest(uri).total.written == 30
    monkeypatch.chdir("/")  # what is in ML Metadata does not depend on the working folder
    assert pipelines.convert(pictures, tmp_path / "out", stratify=True).endswith(uri)


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


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"kind": "video"}, "'video'"),
        ({"nonsense": 1}, "'nonsense'"),
        ({"kind": "text", "frames": "all"}, "'frames'"),
        ({"splits": {"train": 0}}, "'train'"),
        ({"splits": {"train": True}}, "True"),
        ({"num_shards": 0}, "num_shards"),
        ({"layout": "nonsense"}, "'nonsense'"),
        ({"source": 42}, "int"),
        ({"metadata": "mysql://u:p@h/d"}, "'mysql://u:p@h/d'"),
        ({"metadata": "a\0"}, "metadata"),
        ({"metadata": "."}, "'.'"),
        ({"beam_pipeline_args": "--runner=x"}, "'--runner=x'"),
        ({"beam_pipeline_args": ["runner=x"]}, "['runner=x']"),
        ({"out": "https://bucket/out"}, "'https://bucket/out'"),
        ({"out": ""}, "''"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_written(pictures, tmp_path, options, value):
    given = {"source": pictures, "out": str(tmp_path / "out"), **options}
    with pytest.raises(ConfigError) as raised:
        pipelines.convert(given.pop("source"), given.pop("out"), **given)
    assert value in str(raised.value)
    assert not (tmp_path / "out/artifacts").exists()


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


def test_any_other_uri_is_itself(tmp_path):
    uri = make(tmp_path, 1)
    os.mkdir(f"{uri}/latest")
    for one in ("gs://bucket/a", "no/such", "/", uri):
        assert newest_dataset(one) == one


def test_a_file_system_without_links_is_no_error(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    point_to(str(tmp_path / "out"), make(tmp_path, 1))
    assert os.listdir(tmp_path / "out") == ["artifacts"]
