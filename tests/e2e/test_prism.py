"""The components on Prism, Beam's own engine in Go.

`make test-prism` fetches it and runs this; otherwise it is skipped.
"""

import os
import sys

import pytest

from tests.e2e import engines

pytestmark = [pytest.mark.e2e, pytest.mark.prism]
GIVEN = os.environ.get("TFX_SHARDS_PRISM", "")


@pytest.mark.skipif(not GIVEN, reason="TFX_SHARDS_PRISM is not set: make test-prism sets it")
def test_prism_gives_the_same_bytes(inputs, pool, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # TFX parses it together with Beam's arguments
    assert os.path.isfile(GIVEN)
    with engines.prism(GIVEN, tmp_path) as endpoint:
        engines.check_engine(inputs, engines.portable(endpoint, pool), tmp_path / "out")
