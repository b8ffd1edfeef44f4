"""Conversions through TFX, in this process."""

import os
import shutil

import pytest

from tests.pipelines.tools.conversion.published import manifest_of

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
from trainer_utils.format import ConfigError, InputError


@pytest.fixture(scope="module")
def sounds(clips, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, pipelines.convert(clips, str(out), splits={"train": 3, "eval": 1}, num_shards=2)


def test_a_folder_of_sounds_is_recognised_and_converted(sounds):
    out, uri = sounds
    manifest = manifest_of(uri)
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
    assert manifest_of(uri).total.written == 30
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


@pytest.mark.slow
def test_a_frame_of_images_and_one_of_texts(pictures, tmp_path):
    import pandas as pd

    paths = sorted(str(path) for path in pictures.rglob("*.png"))
    frame = pd.DataFrame({"image": paths, "n": range(30)})
    uri = pipelines.convert(frame, str(tmp_path / "images"), image_roots=[str(pictures)])
    assert manifest_of(uri).total.written == 30
    texts = pd.DataFrame({"text": [f"text {n}" for n in range(30)], "n": range(30)})
    uri = pipelines.convert(texts, str(tmp_path / "texts"))
    assert manifest_of(uri).total.written == 30


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("pictures", {"kind": "video"}, "kind: expected one of image, text, audio"),
        ("pictures", {"nonsense": 1}, "option 'nonsense': expected one of ImageExampleGen"),
        ("pictures", {"kind": "text", "frames": "all"}, "expected one of TextExampleGen"),
        ("pictures", {"names": ["image", "label"]}, "'names'.*column_names"),
        ("pictures", {"splits": {"train": 0}}, "splits.'train'.: expected a share of at least 1"),
        ("pictures", {"splits": {"train": True}}, "got True"),
        ("pictures", {"num_shards": 0}, "num_shards: expected int at least 1"),
        ("pictures", {"layout": "nonsense"}, "layout: expected one of auto, folder"),
        (42, {}, "source: expected a path or a DataFrame, got int"),
        ("pictures", {"metadata": "mysql://u:p@h/d"}, "metadata: expected a local path"),
        ("pictures", {"metadata": "a\0"}, "metadata: expected a path without NUL"),
        ("pictures", {"metadata": "."}, "metadata: expected a file, got the folder"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_written(
    request, tmp_path, source, options, said
):
    source = request.getfixturevalue(source) if isinstance(source, str) else source
    with pytest.raises(ConfigError, match=said):
        pipelines.convert(source, str(tmp_path / "out"), **options)
    assert not (tmp_path / "out/artifacts").exists()


def test_a_place_that_cannot_be_written_to_is_refused(pictures, tmp_path):
    with pytest.raises(ConfigError, match="expected a folder outside the input"):
        pipelines.convert(pictures, str(pictures / "out"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="out: expected a folder, got the file"):
        pipelines.convert(pictures, str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="out: expected a local path"):
        pipelines.convert(pictures, "https://bucket/out")
    with pytest.raises(InputError, match="expected a file or a folder, found none"):
        pipelines.convert(tmp_path / "none", str(tmp_path / "out"))
