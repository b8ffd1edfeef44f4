"""What the doctor finds of strategies and workers."""

import json

import pytest

from pipelines.tools.doctor.cluster import cluster_checks, workers_of
from tests.pipelines.tools.doctor.checks import by_name
from trainer_utils.format import ConfigError


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
