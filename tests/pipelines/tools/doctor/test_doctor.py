import json
import os
import shutil
import types
from importlib import metadata

import pytest

from pipelines.tools.doctor import examine
from pipelines.tools.doctor.cluster import cluster_checks, workers_of
from pipelines.tools.doctor.dataset import dataset_checks
from pipelines.tools.doctor.machine import disk_check, machine_checks, memory_limit
from pipelines.tools.doctor.packages import package_checks
from tests.pipelines.rewriting import rewrite
from trainer_utils.format import ConfigError, Feature


def by_name(checks):
    return {check.name: check for check in checks}


@pytest.fixture
def installed(monkeypatch):
    """Sets versions of packages; None: not installed. Others are as they are."""
    real_version, real_requires = metadata.version, metadata.requires

    def install(requirements=None, **versions):
        versions = {name.replace("_", "-"): version for name, version in versions.items()}

        def version(name):
            found = versions.get(name.lower(), "")
            if found is None:
                raise metadata.PackageNotFoundError(name)
            return found or real_version(name)

        monkeypatch.setattr(metadata, "version", version)
        monkeypatch.setattr(
            metadata, "requires", lambda name: (requirements or {}).get(name) or real_requires(name)
        )

    return install


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("TF_USE_LEGACY_KERAS", "TF_CONFIG", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def test_every_check_that_is_not_ok_has_a_cure(whole_dataset):
    checks = examine(str(whole_dataset), workers=8)
    assert {"python", "packages", "keras", "cores", "memory", "disk", "manifest"} <= {
        check.name for check in checks
    }
    for check in checks:
        assert check.level in ("ok", "warn", "bad")
        assert bool(check.cure) == (check.level != "ok"), check


@pytest.mark.parametrize(
    ("python", "tfx", "level", "said"),
    [
        ((3, 10, 13), "1.16.0", "ok", "with TFX 1.16.0"),
        ((3, 12, 1), "1.16.0", "bad", "exists for Python 3.10 at the latest"),
        ((3, 13, 5), "1.21.0", "ok", "with TFX 1.21.0"),
        ((3, 14, 0), "1.21.0", "bad", "exists for Python 3.13 at the latest"),
        ((3, 12, 1), None, "ok", "'tfx-shards[tfx]' adds the rest"),
        ((3, 14, 0), None, "ok", "TFX exists for Python 3.13 at the latest"),
        ((3, 10, 1), None, "ok", "'tfx-shards[tfx]' adds the rest"),
    ],
)
def test_python_and_tfx_must_fit(installed, monkeypatch, python, tfx, level, said):
    import sys

    installed(tfx=tfx)
    monkeypatch.setattr(sys, "version_info", python)
    check = by_name(package_checks())["python"]
    assert check.level == level
    assert said in check.message


def test_versions_that_do_not_work_together_are_named(installed):
    needs = {"tfx-shards": ["protobuf==3.20.3", "nothing-such>=1; extra == 'dev'"]}
    installed(needs, protobuf="4.25.0", tfx=None, tfx_shards="0.1.0")
    check = next(check for check in package_checks() if check.name == "packages")
    assert check.level == "bad"
    assert check.message == "tfx-shards needs protobuf==3.20.3, got protobuf 4.25.0"
    assert "pip install 'tfx-shards'" in check.cure


@pytest.mark.parametrize(
    ("versions", "legacy", "level", "said"),
    [
        (dict(tensorflow="2.16.2", tf_keras="2.16.0"), "1", "ok", "with tf-keras 2.16.0"),
        (dict(tensorflow="2.16.2", tf_keras="2.18.0"), "1", "bad", "must be the same"),
        (dict(tensorflow="2.16.2", tf_keras=None), "1", "bad", "tf-keras is not installed"),
        (dict(tensorflow="2.16.2", tf_keras=None, keras="3.4.1"), "0", "ok", "with Keras 3.4.1"),
        (dict(tensorflow=None, tensorflow_cpu=None), "0", "bad", "not installed"),
    ],
)
def test_keras_and_tensorflow_must_fit(installed, monkeypatch, versions, legacy, level, said):
    installed(**versions)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    checks = by_name(package_checks())
    check = checks.get("keras") or checks["tensorflow"]
    assert check.level == level
    assert said in check.message


@pytest.mark.parametrize(
    ("strategy", "workers", "legacy", "level"),
    [
        ("multi-worker", 1, "0", "bad"),
        ("MultiWorkerMirroredStrategy", 4, "0", "bad"),
        ("multi_worker_mirrored", 4, "0", "bad"),
        ("multi-worker", 4, "1", "ok"),
        ("MirroredStrategy", 1, "0", "ok"),
        ("mirrored", 1, "0", "ok"),
        ("TPUStrategy", 1, "0", "ok"),
        (None, 4, "0", "warn"),
        (None, 1, "0", "ok"),
    ],
)
def test_keras_3_and_several_workers(installed, monkeypatch, strategy, workers, legacy, level):
    installed(keras="3.4.1")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    check = by_name(cluster_checks(workers, strategy))["strategy"]
    assert check.level == level
    assert ("TF_USE_LEGACY_KERAS=1" in check.cure) == (level != "ok")


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ConfigError, match="got 'magic'"):
        list(cluster_checks(1, "magic"))


@pytest.mark.parametrize(
    ("config", "workers", "level"),
    [
        ({"cluster": {"chief": ["a"], "worker": ["b", "c"]}, "task": ["worker", 1]}, 3, "ok"),
        ({"cluster": {"worker": ["b"]}, "task": ["worker", 1]}, 1, "bad"),
        ({"cluster": {"worker": ["b"]}}, 1, "bad"),
        ("{", 1, "bad"),
        ("[]", 1, "bad"),
    ],
)
def test_tf_config_is_read(monkeypatch, config, workers, level):
    if isinstance(config, dict):
        if "task" in config:
            config = {**config, "task": dict(zip(("type", "index"), config["task"], strict=True))}
        config = json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", config)
    assert workers_of() == workers
    assert by_name(cluster_checks(workers, None))["TF_CONFIG"].level == level


def test_the_least_limit_of_all_cgroups_above_counts(tmp_path):
    inner = tmp_path / "pod/container"
    inner.mkdir(parents=True)
    assert memory_limit(tmp_path, "/pod/container") is None
    (inner / "memory.max").write_text("max\n")
    assert memory_limit(tmp_path, "/pod/container") is None
    (tmp_path / "pod/memory.max").write_text("2000000000\n")
    assert memory_limit(tmp_path, "/pod/container") == 2_000_000_000
    (inner / "memory.max").write_text("1000000000\n")
    assert memory_limit(tmp_path, "/pod/container") == 1_000_000_000
    (tmp_path / "memory").mkdir()  # version 1
    (tmp_path / "memory/memory.limit_in_bytes").write_text(str(2**63 - 4096))
    assert memory_limit(tmp_path, "/") is None


def test_little_memory_disk_and_shared_memory_are_told(monkeypatch):
    from pipelines.tools.doctor import machine

    monkeypatch.setattr(machine, "memory_limit", lambda: 2_000_000_000)
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    sizes = types.SimpleNamespace(total=64 << 20, free=500_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: sizes)
    checks = by_name(machine_checks())
    assert (checks["memory"].level, checks["disk"].level) == ("warn", "bad")
    assert "2.0 GB, the limit of the container (cgroup)" in checks["memory"].message
    assert "OMP_NUM_THREADS=2" in checks["cores"].cure
    assert "--shm-size" in checks["shared memory"].cure


def test_space_is_looked_for_where_the_folder_will_be(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    check = disk_check("out", str(tmp_path / "not/yet/there"), needed=free * 2)
    assert check.level in ("warn", "bad")
    assert "not/yet/there" in check.message


@pytest.mark.parametrize(
    ("change", "name", "level", "said"),
    [
        (lambda d: None, "manifest", "ok", "whole by its manifest"),
        (lambda d: (d / "manifest.json").unlink(), "manifest", "warn", "written by Datum"),
        (lambda d: next(d.glob("Split-eval/*")).unlink(), "dataset", "bad", "is missing from"),
        (lambda d: None, "rejects", "warn", "1 of 27 inputs were left out: 1 EMPTY_FILE"),
        (lambda d: None, "classes", "ok", "2, of 12 to 13 examples"),
        (lambda d: None, "compression", "ok", "none"),
    ],
)
def test_what_is_amiss_in_a_dataset(dataset, change, name, level, said):
    change(dataset)
    check = by_name(dataset_checks(str(dataset)))[name]
    assert check.level == level
    assert said in check.message


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"cat": 100, "dog": 5}, "100 of 'cat' for 5 of 'dog'"),
        ({"cat": 10, "cow": 0, "dog": 5}, "'cow' never occurs in train"),
    ],
)
def test_classes_out_of_balance_are_told(dataset, labels, said):
    def change(manifest):
        manifest["splits"]["train"]["labels"] = labels
        manifest["splits"]["eval"]["labels"] = {}

    rewrite(dataset / "manifest.json", change)
    assert said in by_name(dataset_checks(str(dataset)))["classes"].message


@pytest.mark.parametrize(
    ("workers", "level", "said"),
    [
        (1, "ok", "2 of"),
        (2, "ok", "2 of"),
        (3, "warn", "2 for 3 workers"),
        (8, "warn", "8 workers"),
    ],
)
def test_too_few_shards_for_the_workers(whole_dataset, workers, level, said):
    check = by_name(dataset_checks(str(whole_dataset), workers=workers))["shards of train"]
    assert check.level == level
    assert said in check.message


def test_shards_of_odd_sizes_and_gzip_are_told(tmp_path, write_dataset, monkeypatch):
    rows = [{"label": [number]} for number in range(90)]
    features = {"label": Feature(type="int")}
    splits = {"train": [rows[:80], rows[80:]], "eval": [rows]}
    uri = write_dataset(tmp_path / "a", splits, features)
    checks = by_name(dataset_checks(uri))
    assert "workers would not finish together" in checks["shards of train"].message
    monkeypatch.setattr("pipelines.tools.doctor.dataset._LARGE_BYTES", 1000)
    assert "100 to 200 MB read best" in by_name(dataset_checks(uri))["shards of eval"].message
    zipped = write_dataset(tmp_path / "b", splits, features, gzip=True)
    assert "Datum cannot read it" in by_name(dataset_checks(zipped))["compression"].message
