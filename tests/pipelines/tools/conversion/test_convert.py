"""Conversions with TFX installed: their outputs, plans and records in ML Metadata."""

import os
import tempfile

import numpy as np
import pytest

pytest.importorskip("tfx", reason="components needs TFX")
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

import pipelines
import trainer_utils
from components.raw_inputs.requests import prepare
from pipelines.tools.conversion.convert import point_to
from pipelines.tools.conversion.dry_run import plan_conversion
from pipelines.tools.verification import verify_dataset
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.dataset.location import newest_dataset, read_manifest


@pytest.fixture(scope="module")
def sounds(clips, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, pipelines.convert(clips, str(out), splits={"train": 3, "eval": 1}, num_shards=2)


def test_folder_of_clips_is_recognised_and_converted(sounds):
    out, uri = sounds
    manifest = read_manifest(uri)
    assert manifest.producer == "ShardBalancer"
    assert manifest.splits == ("train", "eval")
    assert manifest.total.written == 12
    assert {len(manifest.shards_of(split)) for split in manifest.splits} == {2}
    assert os.path.realpath(out / "latest") == os.path.realpath(uri)


@pytest.mark.slow
def test_empty_training_split_is_an_error(pictures, tmp_path):
    first = next(pictures.rglob("*.png"))
    for name in "ab":
        for split in ("train", "val"):
            (tmp_path / "in" / split / name).mkdir(parents=True)
        (tmp_path / f"in/val/{name}/1.png").write_bytes(first.read_bytes())
        (tmp_path / f"in/train/{name}/2.png").write_bytes(b"no image")
    for _ in range(2):  # the second result comes from the cache
        with pytest.raises(InputError, match="'train'"):
            pipelines.convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=0.5)
    assert not (tmp_path / "out/latest").exists()


def test_unwritable_output_is_refused(pictures, tmp_path, subtests):
    (tmp_path / "file").write_text("")
    for out in (pictures / "out", tmp_path / "file", tmp_path / "file/below"):
        with subtests.test(out=out):
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


@pytest.mark.slow
def test_a_function_of_images_tensors_and_bytes(photos, tmp_path):
    rows = [
        {
            "image": photos[n],
            "label": ("cat", "dog")[n % 2],
            "half": np.full((2, 3), n, np.float16),
            "raw": bytes([255, 0, n]),
            "n": n,
        }
        for n in range(12)
    ]

    def generate(split):
        yield from enumerate({"train": rows[:8], "val": rows[8:]}.get(split, []))

    uri = pipelines.convert(generate, str(tmp_path), num_shards=2, max_reject_fraction=0)
    manifest = read_manifest(uri)
    assert {split: manifest.accounting[split].written for split in manifest.splits} == {
        "train": 8,
        "eval": 4,
    }
    assert not verify_dataset(uri).problems
    splits = trainer_utils.load(uri, batch_size=8, shuffle=False)
    for batch in (next(iter(dataset)) for dataset in splits.values()):
        for row, n in enumerate(batch["n"].numpy()):
            np.testing.assert_array_equal(batch["image"][row], photos[n])
            np.testing.assert_array_equal(batch["half"][row], rows[n]["half"])
            assert batch["raw"].numpy()[row] == rows[n]["raw"]
            assert batch["label"][row] == n % 2
        assert batch["half"].dtype == np.float16


def test_dry_run_of_images_predicts_the_run(pictures, tmp_path):
    planned = plan_conversion(prepare(pictures, num_shards={"train": 3, "eval": 1}, seed=5))
    assert (planned.kind, planned.layout, planned.found) == ("image", "folder", 30)
    assert planned.classes == {"label": 3}
    uri = pipelines.convert(
        pictures, str(tmp_path / "out"), num_shards={"train": 3, "eval": 1}, seed=5
    )
    manifest = read_manifest(uri)
    for name, split in planned.splits.items():
        shards = manifest.shards_of(name)
        assert split.num_shards == len(shards)
        assert split.shard_records == (
            min(s.records for s in shards),
            max(s.records for s in shards),
        )
        assert split.bytes == pytest.approx(sum(shard.bytes for shard in shards), rel=0.1)


def test_a_dry_run_of_texts_counts_rows_and_leaves_nothing(tmp_path, monkeypatch):
    work, source = tmp_path / "tmp", tmp_path / "source"
    work.mkdir()
    source.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    rows = "".join(f"text {number},{number % 2}\n" for number in range(100))
    (source / "a.csv").write_text(f"text,label\n{rows}a,b,c\n")
    planned = plan_conversion(prepare(str(source)))
    assert (planned.kind, planned.layout, planned.found) == ("text", "csv", 101)
    assert sum(split.records for split in planned.splits.values()) == 100
    assert sum(split.rejected for split in planned.splits.values()) == 1
    assert planned.features == {"text": "string", "label": "int"}
    assert list(work.iterdir()) == []
    assert os.listdir(source) == ["a.csv"]
    assert "train" in str(planned)


def test_repeated_run_is_recorded_with_the_same_artifacts(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(40)))
    made = [pipelines.convert(str(table), str(tmp_path / "out"), seed=seed) for seed in (0, 0, 1)]
    assert [one.cached for one in made] == [False, True, False]
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = made[0].metadata
    store = MetadataStore(config)
    states = [execution.last_known_state for execution in store.get_executions()]
    assert states == [mlmd.Execution.COMPLETE] * 3 + [mlmd.Execution.CACHED] * 3 + states[:3]
    artifacts = {artifact.uri: artifact for artifact in store.get_artifacts()}
    assert len(artifacts) == len(store.get_artifacts()) == 8
    examples = artifacts[made[0].examples]
    assert examples.type == "Examples"
    assert examples.properties["split_names"].string_value == '["train", "eval"]'
    assert examples.custom_properties["written"].int_value == 40
    runs = store.get_contexts_by_type("pipeline_run")
    assert [len(store.get_executions_by_context(run.id)) for run in runs] == [3, 3, 3]
