"""AudioExampleGen through its executor: what it publishes, read by TensorFlow's own reader."""

import io
from collections import Counter

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

from components.common.beam import IN_PROCESS_RUNNER
from tests.components.audio_example_gen.audio_runs import (
    FRAMES,
    by_name,
    convert,
    feature_of,
    run,
    sound,
)
from tests.components.runs import output_config, rejects_in
from tests.make import table, write_files

FEATURES = {"audio", "sample_rate", "num_frames", "filename"}


def test_an_example_holds_the_sound_its_sizes_its_name_and_its_label(tmp_path):
    files = {
        "train/a/1.wav": sound(1),
        "train/a/2.flac": sound(2, "FLAC", rate=16_000, channels=2, frames=320),
        "train/b/3.ogg": sound(3, "OGG", rate=22_050, frames=500),
    }
    convert(files, tmp_path)
    found = by_name(tmp_path / "out")
    assert found.keys() == files.keys()
    for name, data in files.items():
        values = found[name]
        assert values.keys() == {*FEATURES, "label", "split"}
        samples, rate = tf.audio.decode_wav(values["audio"])
        expected, expected_rate = soundfile.read(io.BytesIO(data), dtype="int16", always_2d=True)
        assert (values["sample_rate"], values["num_frames"]) == (expected_rate, len(expected))
        assert int(rate) == expected_rate
        assert np.abs(samples.numpy() * 32768 - expected).max() <= 1
        assert values["label"] == "ab".index(name.split("/")[1])
    assert found["train/a/1.wav"]["audio"] == files["train/a/1.wav"]


def test_sample_rate_makes_all_alike(tmp_path):
    rates = [8000, 16_000, 44_100, 22_050]
    files = {f"{rate}.wav": sound(1, rate=rate, frames=rate // 10) for rate in rates}
    manifest = convert(files, tmp_path, sample_rate=16_000)
    found = by_name(tmp_path / "out")
    for rate in rates:
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
def test_the_features_say_what_all_sounds_have_in_common(tmp_path, case):
    sizes, common = SIZES[case]
    files = {f"{n}.wav": sound(n, **size) for n, size in enumerate(sizes)}
    convert(
        files,
        tmp_path,
        target_shard_bytes=1 if len(sizes) == 3 else 1 << 20,
        output_config=output_config(train=1),
    )
    feature = feature_of(tmp_path / "out")
    assert feature == {"type": "string", "shape": [], "dense": True, "encoding": "wav", **common}
    for name in ("sample_rate", "num_frames"):
        assert feature_of(tmp_path / "out", name)["type"] == "int"


EMBEDDED = {
    "bytes": ([sound(n) for n in range(5)], [f"list.parquet/{n:08d}" for n in range(5)]),
    "Hugging Face's": (
        [{"bytes": sound(n), "path": f"{n}.wav"} for n in range(5)],
        [f"{n}.wav" for n in range(5)],
    ),
    "Hugging Face's, with no paths": (
        [{"bytes": sound(n), "path": None} for n in range(5)],
        [f"list.parquet/{n:08d}" for n in range(5)],
    ),
}


@pytest.mark.parametrize(
    ("form", "column"),
    [("bytes", "audio"), ("Hugging Face's", "speech"), ("Hugging Face's, with no paths", "audio")],
)
def test_sounds_may_be_in_the_parquet_file_itself(tmp_path, form, column):
    values, names = EMBEDDED[form]
    rows = [{column: value, "label": "ab"[n % 2]} for n, value in enumerate(values)]
    convert({"list.parquet": table(rows, "parquet", row_group_size=2)}, tmp_path)
    found = by_name(tmp_path / "out")
    assert {name: (found[name]["audio"], found[name]["label"]) for name in found} == {
        name: (sound(n), n % 2) for n, name in enumerate(names)
    }


BAD = {
    "empty.wav": (b"", "EMPTY_FILE"),
    "text.mp3": (b"no sound", "NOT_AUDIO"),
    "photo.wav": (b"\x89PNG\r\n\x1a\n" + bytes(99), "NOT_AUDIO"),
    "cut.wav": (sound(7)[:-2], "TRUNCATED_AUDIO"),
    "silent.wav": (sound(7, frames=0), "NO_SAMPLES"),
    "other.aiff": (sound(7, "AIFF", subtype="PCM_16"), "UNSUPPORTED_FORMAT"),
}


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 20], ids=["many shards", "one shard"])
def test_every_bad_sound_is_a_line_of_the_rejects(tmp_path, target_shard_bytes):
    files, codes = {}, {}
    for split in ("train", "test"):
        files |= {f"{split}/a/{name}": data for name, (data, _) in BAD.items()}
        files |= {f"{split}/{'ab'[n % 2]}/{n}.wav": sound(n) for n in range(10)}
        codes |= {f"{split}/a/{name}": code for name, (_, code) in BAD.items()}
    settings = {"max_reject_fraction": 0.5, "target_shard_bytes": target_shard_bytes}
    manifest = convert(files, tmp_path, **settings)
    assert {line["source"]: line["code"] for line in rejects_in(tmp_path / "out")} == codes
    for entry in manifest["splits"].values():
        assert (entry["found"], entry["written"], entry["rejected"]) == (16, 10, 6)
    assert manifest["rejects"] == Counter(codes.values())


def test_a_codec_that_cannot_be_sought_in_does_not_end_the_run(tmp_path):
    files = {"gsm.wav": sound(1, subtype="GSM610", frames=3200), "1.wav": sound(2)}
    convert(files, tmp_path, max_reject_fraction=0.5)
    assert "1.wav" in by_name(tmp_path / "out")


@pytest.mark.e2e
def test_datum_statistics_gen_and_schema_gen_read_it(tmp_path):
    from datum.reader import load
    from tfx.components.schema_gen.executor import Executor as SchemaGen
    from tfx.components.statistics_gen.executor import Executor as StatisticsGen
    from tfx.utils import io_utils

    names = [
        f"{split}/{label}/{n}.wav" for split in ("train", "eval") for label in "ab" for n in "12"
    ]
    files = {name: sound(number) for number, name in enumerate(names)}
    examples = run(write_files(tmp_path / "in", files), tmp_path / "out")
    loaded = load(examples.uri)
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
    assert given == {
        name: (sound(number), FRAMES, "ab".index(name.split("/")[1]))
        for number, name in enumerate(names)
    }
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=[f"--runner={IN_PROCESS_RUNNER}"],
        tmp_dir=str(tmp_path / "tmp"),
        unique_id="1",
    )
    statistics, schema = standard_artifacts.ExampleStatistics(), standard_artifacts.Schema()
    statistics.uri, schema.uri = str(tmp_path / "statistics"), str(tmp_path / "schema")
    StatisticsGen(context).Do(
        {"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"}
    )
    SchemaGen().Do(
        {"statistics": [statistics]},
        {"schema": [schema]},
        {"infer_feature_shape": 1, "exclude_splits": "[]"},
    )
    found = io_utils.SchemaReader().read(f"{schema.uri}/schema.pbtxt").feature
    assert {feature.name for feature in found} == {*FEATURES, "label"}
