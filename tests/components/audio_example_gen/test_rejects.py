"""What AudioExampleGen rejects, and the settings and inputs that it refuses."""

from collections import Counter
from pathlib import Path

import pytest

from tests.components.audio_example_gen.audio_runs import (
    BAD,
    by_name,
    check_law,
    convert,
    rejects,
    sound,
    write_tree,
)


def with_bad(base: Path, split: str) -> Path:
    """Ten good sounds and each bad one, in a split's folder."""
    bad = {f"{split}/a/{name}": data for name, (data, _) in BAD.items()}
    good = {f"{split}/{'ab'[n % 2]}/{n}.wav": sound(n) for n in range(10)}
    return write_tree(base, {**bad, **good})


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 20], ids=["many shards", "one shard"])
def test_every_bad_sound_is_a_line_of_the_rejects(tmp_path, target_shard_bytes):
    with_bad(tmp_path / "in", "train")
    with_bad(tmp_path / "in", "test")
    manifest = convert(
        tmp_path / "in",
        tmp_path / "out",
        max_reject_fraction=0.5,
        target_shard_bytes=target_shard_bytes,
    )
    check_law(tmp_path / "out")
    assert rejects(tmp_path / "out") == {
        f"{split}/a/{name}": code for split in ("train", "test") for name, (_, code) in BAD.items()
    }
    for split in ("train", "test"):
        entry = manifest["splits"][split]
        assert (entry["found"], entry["written"], entry["rejected"]) == (16, 10, 6)
    assert manifest["rejects"] == dict(
        Counter(code for _, code in BAD.values() for _ in ("train", "test"))
    )


def test_a_codec_that_cannot_be_sought_in_does_not_end_the_run(tmp_path):
    files = {"gsm.wav": sound(1, subtype="GSM610", frames=3200), "1.wav": sound(2)}
    convert(write_tree(tmp_path / "in", files), tmp_path / "out", max_reject_fraction=0.5)
    check_law(tmp_path / "out")
    assert "1.wav" in by_name(tmp_path / "out")
