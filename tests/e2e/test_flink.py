"""The components on Flink, in Java: Beam's job server with a cluster of one process in it.

`make test-flink` fetches it and runs this; otherwise it is skipped.
"""

import os
import sys

import pytest

from tests.e2e import engines

pytestmark = [pytest.mark.e2e, pytest.mark.flink]
GIVEN = os.environ.get("TFX_SHARDS_FLINK_JAR", "")


@pytest.mark.skipif(not GIVEN, reason="TFX_SHARDS_FLINK_JAR is not set: make test-flink sets it")
def test_flink_gives_the_same_bytes(inputs, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses it together with Beam's arguments
    assert os.path.isfile(GIVEN)
    with engines.flink(GIVEN, tmp_path) as endpoint:
        arguments = [*engines.portable(endpoint, pool), "--parallelism=2"]
        engines.check_engine(inputs, arguments, tmp_path / "out")
