"""From Python through TFX to a dataset, and back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
import trainer_utils
from pipelines.tools.verification import verify_dataset
from trainer_utils.dataset.location import read_manifest

pytestmark = pytest.mark.slow


def test_a_function_of_images_tensors_and_bytes(photos: list[Any], tmp_path: Path) -> None:
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

    def generate(split: str) -> Iterator[tuple[int, dict[str, Any]]]:
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
