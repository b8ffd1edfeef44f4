"""Datasets have the same bytes with and without TFX, on both of its stacks, in each release."""

import json
from pathlib import Path

import pytest

from tests.golden.make_digests import digests_of, make_datasets

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).parent / "golden/digests.json"


def test_bytes_of_every_file_are_unchanged(tmp_path):
    """Compare digests; after an intended change of the format, `make golden` rewrites them."""
    assert digests_of(make_datasets(tmp_path)) == json.loads(GOLDEN.read_text())
