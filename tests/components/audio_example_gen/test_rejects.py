"""What AudioExampleGen rejects, and the settings and inputs that it refuses."""

from collections import Counter
from pathlib import Path

import pytest

from tests.components.audio_example_gen.audio_runs import (
    BAD,
    by_name,
    check_law,
    convert,
    delimited,
    rejects,
    sound,
    write_sounds,
    write_tree,
)
from trainer_utils.format import ConfigError, InputError


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
    check_law(manifest, tmp_path / "out")
    assert rejects(tmp_path / "out") == {
        f"{split}/a/{name}": code for split in ("train", "test") for name, (_, code) in BAD.items()
    }
    for split in ("train", "test"):
        entry = manifest["splits"][split]
        assert (entry["found"], entry["written"], entry["rejected"]) == (16, 10, 6)
    assert manifest["rejects"] == dict(
        Counter(code for _, code in BAD.values() for _ in ("train", "test"))
    )


@pytest.mark.parametrize("max_reject_fraction", [0, 0.01, 0.3])
def test_too_many_rejects_fail_the_run_and_are_shown(tmp_path, max_reject_fraction):
    with_bad(tmp_path / "in", "train")
    with pytest.raises(InputError) as caught:
        convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=max_reject_fraction)
    message = str(caught.value)
    assert "6 of 16" in message
    assert all(name in message and code in message for name, (_, code) in BAD.items())
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_codec_that_cannot_be_sought_in_does_not_end_the_run(tmp_path):
    files = {"gsm.wav": sound(1, subtype="GSM610", frames=3200), "1.wav": sound(2)}
    manifest = convert(
        write_tree(tmp_path / "in", files), tmp_path / "out", max_reject_fraction=0.5
    )
    check_law(manifest, tmp_path / "out")
    assert "1.wav" in by_name(tmp_path / "out")


def test_listed_sounds_that_are_not_there_are_rejects(tmp_path):
    rows = [["audio", "label"], ["1.wav", "a"], ["2.wav", "b"], ["../3.wav", "a"], ["4.wav", ""]]
    write_sounds(tmp_path / "in", ["1.wav", "4.wav"])
    write_tree(tmp_path / "in", {"list.csv": delimited(rows)})
    manifest = convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=0.9)
    check_law(manifest, tmp_path / "out")
    assert rejects(tmp_path / "out") == {
        "2.wav": "FILE_NOT_FOUND",
        "../3.wav": "FILE_NOT_FOUND",
        "4.wav": "NO_LABEL",
    }


def test_nothing_but_rejects_says_what_was_looked_for(tmp_path):
    write_tree(tmp_path / "in", {"a.txt": "no sound", "b.txt": "nor here"})
    with pytest.raises(InputError, match=r"sounds.*a\.txt, b\.txt"):
        convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=1.0)


# Settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"layout": "voc"}, "layout: .*'voc'"),
        ({"sample_rate": 0}, "sample_rate: .*0"),
        ({"sample_rate": 10**6}, "sample_rate: .*1000000"),
        ({"columns": {"label": "int"}, "layout": "folder"}, "columns: .*label"),
        ({"compression": "zip"}, "compression: .*'zip'"),
        ({"max_reject_fraction": 1.5}, "max_reject_fraction: .*1.5"),
        ({"vocabulary": ["a", "a"]}, "vocabulary.*'a'"),
        ({"target_shard_bytes": 0}, "target_shard_bytes: .*0"),
    ],
)
def test_a_bad_setting_fails_at_once_by_name(tmp_path, properties, message):
    base = write_sounds(tmp_path / "in", ["a/1.wav", "b/2.wav"])
    with pytest.raises(ConfigError, match=message):
        convert(base, tmp_path / "out", **properties)
