"""A dataset has the same bytes with and without TFX, on either of its stacks, in each release."""

import json
from pathlib import Path

import pytest

from tests.golden.make_digests import digests_of, make_datasets

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).parent / "golden/digests.json"


def test_every_file_has_the_bytes_it_had(tmp_path):
    """Where a change of the format is meant, `make golden` writes the digests anew."""
    assert digests_of(make_datasets(tmp_path)) == json.loads(GOLDEN.read_text())
