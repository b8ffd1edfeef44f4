"""AudioExampleGen's executor: its output, read by TensorFlow."""

import io
from collections import Counter

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from tests.components.audio_example_gen.audio_runs import by_name, convert, feature_of
from tests.components.runs import output_config, rejects_in
from tests.make import table, wav

FRAMES = 400

FEATURES = {"audio", "sample_rate", "num_frames", "filename"}


def test_example_has_audio_sizes_name_and_label(tmp_path, subtests):
    files = {
        "train/a/1.wav": wav(1),
        "train/a/2.flac": wav(2, kind="FLAC", rate=16_000, channels=2, frames=320),
        "train/b/3.ogg": wav(3, kind="OGG", rate=22_050, frames=500),
    }
    convert(files, tmp_path)
    found = by_name(tmp_path / "out")
    assert found.keys() == files.keys()
    for name, data in files.items():
        with subtests.test(name=name):
            values = found[name]
            assert values.keys() == {*FEATURES, "label", "split"}
            samples, rate = tf.audio.decode_wav(values["audio"])
            expected, expected_rate = soundfile.read(
                io.BytesIO(data), dtype="int16", always_2d=True
            )
            assert (values["sample_rate"], values["num_frames"]) == (expected_rate, len(expected))
            assert int(rate) == expected_rate
            assert np.abs(samples.numpy() * 32768 - expected).max() <= 1
            assert values["label"] == "ab".index(name.split("/")[1])
    assert found["train/a/1.wav"]["audio"] == files["train/a/1.wav"]


def test_sample_rate_resamples_all_clips(tmp_path, subtests):
    rates = [8000, 16_000, 44_100, 22_050]
    files = {f"{rate}.wav": wav(1, rate=rate, frames=rate // 10) for rate in rates}
    manifest = convert(files, tmp_path, sample_rate=16_000)
    found = by_name(tmp_path / "out")
    for rate in rates:
        with subtests.test(rate=rate):
            values = found[f"{rate}.wav"]
            samples, stored_rate = tf.audio.decode_wav(values["audio"])
            assert int(stored_rate) == values["sample_rate"] == 16_000
            assert samples.shape == (values["num_frames"], 1) == (1600, 1)
    assert found["16000.wav"]["audio"] == files["16000.wav"]
    assert manifest["conversions"] == {"RESAMPLED": 3}
    assert manifest["config"]["sample_rate"] == 16_000
    feature = feature_of(tmp_path / "out")
    assert (feature["sample_rate"], feature["num_frames"], feature["channels"]) == (16_000, 1600, 1)


SIZES = {
    "all alike": ([{}, {}, {}], {"sample_rate": 8000, "num_frames": FRAMES, "channels": 1}),
    "another rate": ([{}, {}, {"rate": 16_000}], {"num_frames": FRAMES, "channels": 1}),
    "another length": ([{}, {"frames": 7}, {}], {"sample_rate": 8000, "channels": 1}),
    "other channels": ([{"channels": 2}, {}], {"sample_rate": 8000, "num_frames": FRAMES}),
    "nothing alike": ([{"channels": 2, "rate": 16_000, "frames": 9}, {}], {}),
}


@pytest.mark.parametrize("case", SIZES)
def test_features_describe_the_common_properties_of_clips(tmp_path, case, subtests):
    sizes, common = SIZES[case]
    files = {f"{n}.wav": wav(n, **size) for n, size in enumerate(sizes)}
    convert(
        files,
        tmp_path,
        target_shard_bytes=1 if len(sizes) == 3 else 1 << 20,
        output_config=output_config(train=1),
    )
    feature = feature_of(tmp_path / "out")
    assert feature == {"type": "string", "shape": [], "dense": True, "encoding": "wav", **common}
    for name in ("sample_rate", "num_frames"):
        with subtests.test(name=name):
            assert feature_of(tmp_path / "out", name)["type"] == "int"


@pytest.mark.parametrize(("column", "path"), [("audio", ""), ("speech", "{}.wav"), ("audio", None)])
def test_clips_may_be_inside_a_parquet_file(tmp_path, column, path):
    """Store clips as bytes, or as Hugging Face's structs with or without paths."""
    rows, expected = [], {}
    for n in range(5):
        value = wav(n) if path == "" else {"bytes": wav(n), "path": path and path.format(n)}
        rows.append({column: value, "label": "ab"[n % 2]})
        expected[path.format(n) if path else f"list.parquet/{n:08d}"] = (wav(n), n % 2)
    convert({"list.parquet": table(rows, "parquet", row_group_size=2)}, tmp_path)
    found = by_name(tmp_path / "out")
    assert {name: (one["audio"], one["label"]) for name, one in found.items()} == expected


BAD = {
    "empty.wav": (b"", "EMPTY_FILE"),
    "text.mp3": (b"no sound", "NOT_AUDIO"),
    "photo.wav": (b"\x89PNG\r\n\x1a\n" + bytes(99), "NOT_AUDIO"),
    "cut.wav": (wav(7)[:-2], "TRUNCATED_AUDIO"),
    "silent.wav": (wav(7, frames=0), "NO_SAMPLES"),
    "other.aiff": (wav(7, kind="AIFF", subtype="PCM_16"), "UNSUPPORTED_FORMAT"),
}


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 20], ids=["many shards", "one shard"])
def test_every_bad_clip_is_a_reject(tmp_path, target_shard_bytes):
    files, codes = {}, {}
    for split in ("train", "test"):
        files |= {f"{split}/a/{name}": data for name, (data, _) in BAD.items()}
        files |= {f"{split}/{'ab'[n % 2]}/{n}.wav": wav(n) for n in range(10)}
        codes |= {f"{split}/a/{name}": code for name, (_, code) in BAD.items()}
    settings = {"max_reject_fraction": 0.5, "target_shard_bytes": target_shard_bytes}
    manifest = convert(files, tmp_path, **settings)
    assert {line["source"]: line["code"] for line in rejects_in(tmp_path / "out")} == codes
    for entry in manifest["splits"].values():
        assert (entry["found"], entry["written"], entry["rejected"]) == (16, 10, 6)
    assert manifest["rejects"] == Counter(codes.values())


def test_codec_that_cannot_seek_does_not_end_the_run(tmp_path):
    files = {"gsm.wav": wav(1, subtype="GSM610", frames=3200), "1.wav": wav(2)}
    convert(files, tmp_path, max_reject_fraction=0.5)
    assert "1.wav" in by_name(tmp_path / "out")


def test_datum_reads_the_dataset(tmp_path):
    from datum.reader import load

    names = [
        f"{split}/{label}/{n}.wav" for split in ("train", "eval") for label in "ab" for n in "12"
    ]
    files = {name: wav(number) for number, name in enumerate(names)}
    convert(files, tmp_path)
    loaded = load(str(tmp_path / "out"))
    loaded.dataset_configs.batch_size_val = 1
    given = {
        example["filename"].numpy()[0].decode(): (
            example["audio"].numpy()[0],
            int(example["num_frames"][0]),
            int(example["label"][0]),
        )
        for split in ("train", "eval")
        for example in loaded.val_fn(split)
    }
    assert given == {name: (files[name], FRAMES, "ab".index(name.split("/")[1])) for name in names}
