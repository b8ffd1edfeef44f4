"""`tfx-shards balance` and the function behind it."""

import json

import pytest
from click.testing import CliRunner

from pipelines.cli.app import app
from tests.make import write_rows
from trainer_utils.dataset import open_dataset


@pytest.fixture
def source(tmp_path):
    rows = ({"filename": f"{number}.jpg", "height": number} for number in range(40))
    return write_rows(tmp_path / "in", rows, num_shards=4)


def test_dry_run_counts_kept_records_and_writes_nothing(source, tmp_path):
    words = ["balance", str(source), "--dry-run", "--json", "--where", "height >= 10"]
    result = CliRunner().invoke(app, [*words, "--num-shards", "3"])
    (split,) = json.loads(result.stdout)["splits"]
    assert (split["records"], len(split["shard_records"])) == (30, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


@pytest.mark.e2e
@pytest.mark.slow
def test_balance_writes_dataset_link_and_lineage(source, tmp_path):
    pytest.importorskip("ml_metadata", reason="it records the lineage")
    names = tmp_path / "bad.txt"
    names.write_text("3.jpg\n4.jpg\n")
    out = tmp_path / "out"
    words = ["balance", str(source), str(out), "--exclude", str(names), "--keep-shards", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    uri = json.loads(result.stdout)["uri"]
    assert open_dataset(uri).records == {"train": 38}
    assert (out / "latest").resolve() == (tmp_path / uri).resolve()
    assert (out / "metadata.sqlite").exists()


@pytest.mark.slow
def test_balance_into_a_bucket_writes_the_same_shards(
    source, tmp_path, s3_store, monkeypatch, subtests
):
    for name, value in s3_store.environment.items():
        monkeypatch.setenv(name, value)
    out = f"{s3_store.base}/balanced"
    uris = []
    for place in (str(tmp_path / "out"), out):
        with subtests.test(place=place):
            words = ["balance", str(source), place, "--num-shards", "3", "--json"]
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
            uris.append(json.loads(result.stdout)["uri"])
    assert uris[1] == f"{out}/artifacts/ShardBalancer/balanced_examples/1"
    local, remote = (open_dataset(uri) for uri in uris)
    assert remote.records == {"train": 40}
    assert remote.digest == local.digest
