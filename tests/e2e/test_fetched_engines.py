"""The components on engines that have to be fetched: `make test-flink`, `make test-prism`.

Flink is Beam's job server in Java, with a cluster of one process in it; Prism is Beam's own engine
in Go. Without what the two targets fetch the tests are skipped.
"""

import os
import sys

import pytest

from tests.e2e import engines

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("engine", "variable", "more"),
    [
        pytest.param("flink", "TFX_SHARDS_FLINK_JAR", ["--parallelism=2"], marks=pytest.mark.flink),
        pytest.param("prism", "TFX_SHARDS_PRISM", [], marks=pytest.mark.prism),
    ],
)
def test_the_engine_gives_the_same_bytes(request, tmp_path, monkeypatch, engine, variable, more):
    given = os.environ.get(variable, "")
    if not given:
        pytest.skip(f"{variable} is not set: make test-{engine} sets it")
    inputs, pool = request.getfixturevalue("inputs"), request.getfixturevalue("pool")
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses it together with Beam's arguments
    assert os.path.isfile(given)
    with getattr(engines, engine)(given, tmp_path) as endpoint:
        engines.check_engine(inputs, [*engines.portable(endpoint, pool), *more], tmp_path / "out")
