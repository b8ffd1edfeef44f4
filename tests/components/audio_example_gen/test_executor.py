"""AudioExampleGen through its executor: what it publishes, read by TensorFlow's own reader."""

import csv
import functools
import io
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
import soundfile
import tensorflow as tf
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.audio_example_gen.executor import Executor
from components.common.beam import IN_PROCESS_RUNNER
from trainer_utils import input_fn
from trainer_utils.format import ConfigError, InputError

FRAMES = 160
FEATURES = {"audio", "sample_rate", "num_frames", "filename"}


@functools.cache
def sound(
    number: int = 0,
    kind: str = "WAV",
    *,
    rate: int = 8000,
    channels: int = 1,
    frames: int = FRAMES,
    subtype: str | None = None,
) -> bytes:
    """A tone whose pitch the number sets, so that no two are alike."""
    seconds = np.arange(frames) / rate
    wave = 0.5 * np.sin(2 * np.pi * (200 + 13 * number) * seconds)
    stream = io.BytesIO()
    subtype = subtype or {"WAV": "PCM_16", "FLAC": "PCM_16"}.get(kind)
    soundfile.write(stream, np.stack([wave] * channels, 1), rate, format=kind, subtype=subtype)
    return stream.getvalue()


def write_tree(base: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return base


def write_sounds(base: Path, names: Iterable[str]) -> Path:
    """Writes a different sound under each name, of the kind that the name ends in."""
    kinds = {".flac": "FLAC", ".ogg": "OGG", ".mp3": "MP3"}
    return write_tree(
        base,
        {
            name: sound(number, kinds.get(os.path.splitext(name)[1], "WAV"))
            for number, name in enumerate(names)
        },
    )


def output_config(**shares: int) -> str:
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share)
        for name, share in shares.items()
    ]
    config = example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits))
    return proto_utils.proto_to_json(config)


def in_process() -> beam.Pipeline:
    return beam.Pipeline(runner=IN_PROCESS_RUNNER)


def run(
    base: Path | str, uri: Path, *, beam_pipeline_args: Any = None, **properties: Any
) -> standard_artifacts.Examples:
    """Runs the executor as TFX does."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=beam_pipeline_args,
        make_beam_pipeline_fn=None if beam_pipeline_args else in_process,
        tmp_dir=f"{uri}.tmp",
        unique_id="1",
    )
    defaults = {
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": "{}",
    }
    for name in ("columns", "vocabulary", "image_roots"):
        if name in properties:
            properties[name] = json.dumps(properties[name])
    Executor(context).Do(
        {}, {"examples": [artifact]}, {"input_base": str(base), **defaults, **properties}
    )
    return artifact


def convert(base: Path | str, uri: Path, **properties: Any) -> dict[str, Any]:
    """Runs the executor; returns the manifest."""
    run(base, uri, **properties)
    return json.loads((uri / "manifest.json").read_text())


def read(uri: Path) -> dict[str, list[dict[str, list[Any]]]]:
    """The examples of each split, in order, by TensorFlow's own reader."""
    splits: dict[str, list[dict[str, list[Any]]]] = {}
    for folder in sorted(uri.glob("Split-*")):
        paths = sorted(map(str, folder.iterdir()))
        kind = "GZIP" if paths[0].endswith(".gz") else ""
        splits[folder.name.removeprefix("Split-")] = [
            {
                name: list(getattr(feature, feature.WhichOneof("kind")).value)
                for name, feature in tf.train.Example.FromString(r.numpy()).features.feature.items()
            }
            for r in tf.data.TFRecordDataset(paths, kind)
        ]
    return splits


def by_name(uri: Path) -> dict[str, dict[str, Any]]:
    """The single values of every example, by filename."""
    found: dict[str, dict[str, Any]] = {}
    for split, examples in read(uri).items():
        for example in examples:
            values = {name: values[0] for name, values in example.items() if len(values) == 1}
            name = values["filename"].decode()
            assert name not in found, "in the dataset twice"
            found[name] = {**values, "split": split}
    return found


def vocabulary(uri: Path, name: str = "label") -> list[str]:
    return (uri / "vocab" / f"{name}.txt").read_text().splitlines()


def placed(uri: Path) -> dict[str, tuple[str, str | None]]:
    """Split and label of every example, by filename."""
    labels = vocabulary(uri) if (uri / "vocab").exists() else []
    return {
        name: (values["split"], labels[values["label"]] if "label" in values else None)
        for name, values in by_name(uri).items()
    }


def feature_of(uri: Path, name: str = "audio") -> dict[str, Any]:
    return json.loads((uri / "datum_to_type_and_shape_mapping.json").read_text())[name]


def rejects(uri: Path) -> dict[str, str]:
    """Codes by source."""
    path = uri / "rejects.jsonl"
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {line["source"]: line["code"] for line in lines}


def check_law(manifest: dict[str, Any], uri: Path) -> None:
    """Found = written + rejected + skipped, for each split and for all; written are there."""
    entries = [*manifest["splits"].values(), manifest["total"]]
    for entry in entries:
        assert entry["found"] == entry["written"] + entry["rejected"] + entry["skipped"]
    total = manifest["total"]
    for name in ("found", "written", "rejected", "skipped"):
        assert total[name] == sum(entry[name] for entry in manifest["splits"].values())
    assert {split: len(examples) for split, examples in read(uri).items()} == {
        split: entry["written"] for split, entry in manifest["splits"].items()
    }
    assert total["rejected"] == len(rejects(uri)) == sum(manifest["rejects"].values())


# Folders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [
        {
            "train/yes/1.wav": ("train", "yes"),
            "train/no/2.flac": ("train", "no"),
            "val/no/1.ogg": ("eval", "no"),
            "test/yes/1.mp3": ("test", "yes"),
        },
        {"train/1.wav": ("train", None), "test/1.flac": ("test", None)},
        {"train/yes/anna/may/1.wav": ("train", "yes"), "test/no/2.wav": ("test", "no")},
    ],
    ids=["split and class", "split", "nested"],
)
def test_split_folders_give_split_and_label(tmp_path, expected):
    manifest = convert(write_sounds(tmp_path / "in", expected), tmp_path / "out")
    assert placed(tmp_path / "out") == expected
    check_law(manifest, tmp_path / "out")


@pytest.mark.parametrize(
    "expected",
    [
        {"yes/1.wav": "yes", "no/2.flac": "no", "no/deep/3.ogg": "no"},
        {"1.wav": None, "2.mp3": None, "3": None},
    ],
    ids=["classes", "flat"],
)
def test_class_folders_give_the_label_and_a_hash_the_split(tmp_path, expected):
    manifest = convert(write_sounds(tmp_path / "in", expected), tmp_path / "out")
    assert {name: label for name, (_, label) in placed(tmp_path / "out").items()} == expected
    assert manifest["split_order"] == ["train", "eval"]
    check_law(manifest, tmp_path / "out")


def test_an_example_holds_the_sound_its_sizes_its_name_and_its_label(tmp_path):
    files = {
        "train/a/1.wav": sound(1),
        "train/a/2.flac": sound(2, "FLAC", rate=16_000, channels=2, frames=320),
        "train/b/3.ogg": sound(3, "OGG", rate=22_050, frames=500),
    }
    convert(write_tree(tmp_path / "in", files), tmp_path / "out")
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


def test_hidden_files_are_skipped_and_counted(tmp_path):
    names = ["yes/1.wav", "no/2.wav", "yes/.DS_Store", "Thumbs.db"]
    manifest = convert(write_sounds(tmp_path / "in", names), tmp_path / "out")
    assert manifest["total"]["skipped"] == 2
    assert placed(tmp_path / "out").keys() == {"yes/1.wav", "no/2.wav"}
    check_law(manifest, tmp_path / "out")


def test_patterns_of_input_config_are_splits(tmp_path):
    names = ["a/yes/1.wav", "a/no/2.wav", "b/yes/3.wav"]
    splits = [
        example_gen_pb2.Input.Split(name="train", pattern="a/*/*"),
        example_gen_pb2.Input.Split(name="eval", pattern="b/*/*"),
    ]
    config = proto_utils.proto_to_json(example_gen_pb2.Input(splits=splits))
    convert(write_sounds(tmp_path / "in", names), tmp_path / "out", input_config=config)
    assert placed(tmp_path / "out") == {
        "a/yes/1.wav": ("train", "yes"),
        "a/no/2.wav": ("train", "no"),
        "b/yes/3.wav": ("eval", "yes"),
    }


# Lists --------------------------------------------------------------------------------------------

NAMES = ["1.wav", "more/2.flac", "3.ogg"]
ROWS = list(zip(NAMES, ["TRAIN", "VALIDATION", "TEST"], ["yes", "no", "yes"], strict=True))
OF_ROWS = {"1.wav": ("train", "yes"), "more/2.flac": ("eval", "no"), "3.ogg": ("test", "yes")}


def delimited(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    return stream.getvalue()


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(frame: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame(frame).to_parquet(stream, row_group_size=2)
    return stream.getvalue()


def records(column: str) -> list[dict[str, Any]]:
    return [{column: name, "split": split, "label": label} for name, split, label in ROWS]


LISTS: dict[str, tuple[str, str | bytes]] = {
    "CSV": ("list.csv", delimited([["audio", "split", "label"], *ROWS])),
    "CSV of clips": ("list.csv", delimited([["clip", "split", "label"], *ROWS])),
    "CSV of paths": ("list.csv", delimited([["path", "set", "class"], *ROWS])),
    "CSV with no header": ("list.csv", delimited([[s, name, x] for name, s, x in ROWS])),
    "AudioFolder's CSV": ("metadata.csv", delimited([["file_name", "split", "label"], *ROWS])),
    "TSV": ("list.tsv", delimited([["audio", "split", "label"], *ROWS], "\t")),
    "Common Voice's TSV": ("list.tsv", delimited([["path", "split", "label"], *ROWS], "\t")),
    "JSON lines": ("list.jsonl", json_lines(records("audio_uri"))),
    "AudioFolder's JSON lines": ("metadata.jsonl", json_lines(records("file_name"))),
    "Parquet": ("list.parquet", parquet(pd.DataFrame(records("audio")).to_dict("list"))),
}


@pytest.mark.parametrize(("name", "content"), LISTS.values(), ids=LISTS)
def test_a_list_gives_split_and_label(tmp_path, name, content):
    write_tree(write_sounds(tmp_path / "in", NAMES), {name: content})
    manifest = convert(tmp_path / "in", tmp_path / "out")
    check_law(manifest, tmp_path / "out")
    found = by_name(tmp_path / "out")
    label = next(iter({"label", "class"} & {*found["1.wav"]}))
    labels = vocabulary(tmp_path / "out", label)
    assert {n: (v["split"], labels[v[label]]) for n, v in found.items()} == OF_ROWS
    assert all(values.keys() == {*FEATURES, label, "split"} for values in found.values())
    assert found["1.wav"]["audio"] == sound(0)
    assert manifest["conversions"] == {"FLAC": 1, "OGG": 1}


@pytest.mark.parametrize("layout", ["csv", "tsv", "jsonl", "parquet", "folder"])
def test_a_forced_layout_that_is_not_there_says_so(tmp_path, layout):
    base = write_sounds(tmp_path / "in", ["yes/1.wav"])
    if layout == "folder":
        convert(base, tmp_path / "out", layout=layout)
        assert placed(tmp_path / "out")["yes/1.wav"][1] == "yes"
        return
    with pytest.raises(InputError, match=f"layout='{layout}'"):
        convert(base, tmp_path / "out", layout=layout)


def test_other_columns_are_features(tmp_path):
    rows = [
        {"audio": f"{n}.wav", "age": n, "weight": n / 4, "said": f"wört {n}", "x": {"y": [n, 1]}}
        for n in range(4)
    ]
    write_sounds(tmp_path / "in", [row["audio"] for row in rows])
    write_tree(tmp_path / "in", {"list.jsonl": json_lines(rows)})
    convert(tmp_path / "in", tmp_path / "out", output_config=output_config(train=1))
    found = {
        example["filename"][0].decode(): example for example in read(tmp_path / "out")["train"]
    }
    for n in range(4):
        example = found[f"{n}.wav"]
        assert example.keys() == {*FEATURES, "age", "weight", "said", "x.y"}
        assert (example["age"], example["weight"], example["x.y"]) == ([n], [n / 4], [n, 1])
        assert example["said"] == [f"wört {n}".encode()]


def test_columns_name_and_type_the_columns(tmp_path):
    rows = [
        ["take", "grade", "who", "note"],
        *[[f"{n}.wav", n, "ab"[n % 2], "?"] for n in range(4)],
    ]
    write_sounds(tmp_path / "in", [row[0] for row in rows[1:]])
    write_tree(tmp_path / "in", {"list.csv": delimited(rows)})
    columns = {"take": "audio", "grade": "float", "who": "label", "note": "ignore"}
    convert(tmp_path / "in", tmp_path / "out", columns=columns)
    found = by_name(tmp_path / "out")
    for n in range(4):
        values = found[f"{n}.wav"]
        assert values.keys() == {*FEATURES, "grade", "who", "split"}
        assert (values["grade"], values["who"]) == (float(n), n % 2)
    assert feature_of(tmp_path / "out", "grade")["type"] == "float"
    assert vocabulary(tmp_path / "out", "who") == ["a", "b"]


def test_a_column_never_takes_the_place_of_what_is_measured(tmp_path):
    rows = [["audio", "sample_rate", "num_frames"], ["1.wav", 1, 2]]
    write_tree(write_sounds(tmp_path / "in", ["1.wav"]), {"list.csv": delimited(rows)})
    convert(tmp_path / "in", tmp_path / "out")
    values = by_name(tmp_path / "out")["1.wav"]
    assert (values["sample_rate"], values["num_frames"]) == (8000, FRAMES)


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


@pytest.mark.parametrize(("values", "names"), EMBEDDED.values(), ids=EMBEDDED)
@pytest.mark.parametrize("column", ["audio", "speech"])
def test_sounds_may_be_in_the_parquet_file_itself(tmp_path, values, names, column):
    table = {column: values, "label": ["a", "b", "a", "b", "a"]}
    write_tree(tmp_path / "in", {"list.parquet": parquet(table)})
    manifest = convert(tmp_path / "in", tmp_path / "out")
    check_law(manifest, tmp_path / "out")
    found = by_name(tmp_path / "out")
    assert {name: (found[name]["audio"], found[name]["label"]) for name in found} == {
        name: (sound(n), n % 2) for n, name in enumerate(names)
    }


def test_a_row_without_bytes_is_a_reject(tmp_path):
    table = {"audio": [sound(0), None, b"", b"junk", sound(4)]}
    write_tree(tmp_path / "in", {"list.parquet": parquet(table)})
    manifest = convert(tmp_path / "in", tmp_path / "out", max_reject_fraction=0.9)
    check_law(manifest, tmp_path / "out")
    assert manifest["rejects"] == {"EMPTY_FILE": 2, "NOT_AUDIO": 1}


def test_a_list_may_point_into_other_folders(tmp_path):
    write_sounds(tmp_path / "clips", ["deep/1.wav"])
    write_tree(tmp_path / "in", {"list.csv": "audio\ndeep/1.wav\n"})
    roots = [str(tmp_path / "clips")]
    convert(tmp_path / "in", tmp_path / "out", image_roots=roots)
    assert by_name(tmp_path / "out")["deep/1.wav"]["audio"] == sound(0)


def test_a_sound_that_is_listed_twice_is_refused_by_name(tmp_path):
    write_tree(write_sounds(tmp_path / "in", ["1.wav"]), {"list.csv": "audio\n1.wav\n1.wav\n"})
    with pytest.raises(InputError, match=r"1\.wav.*lines 2 and 3") as caught:
        convert(tmp_path / "in", tmp_path / "out")
    assert "image" not in str(caught.value)


def test_two_lists_are_refused_in_words_for_sounds(tmp_path):
    lists = {"a.csv": "audio\n1.wav\n", "b.csv": "audio\n1.wav\n"}
    write_tree(write_sounds(tmp_path / "in", ["1.wav"]), lists)
    with pytest.raises(InputError, match=r"a\.csv, b\.csv") as caught:
        convert(tmp_path / "in", tmp_path / "out")
    assert "image" not in str(caught.value)


# Sizes --------------------------------------------------------------------------------------------


def test_sample_rate_makes_all_alike(tmp_path):
    rates = [8000, 16_000, 44_100, 22_050]
    files = {f"{rate}.wav": sound(1, rate=rate, frames=rate // 10) for rate in rates}
    manifest = convert(write_tree(tmp_path / "in", files), tmp_path / "out", sample_rate=16_000)
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


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 20], ids=["many shards", "one shard"])
@pytest.mark.parametrize(("sizes", "common"), SIZES.values(), ids=SIZES)
def test_the_features_say_what_all_sounds_have_in_common(
    tmp_path, sizes, common, target_shard_bytes
):
    files = {f"{n}.wav": sound(n, **size) for n, size in enumerate(sizes)}
    convert(
        write_tree(tmp_path / "in", files),
        tmp_path / "out",
        target_shard_bytes=target_shard_bytes,
        output_config=output_config(train=1),
    )
    feature = feature_of(tmp_path / "out")
    assert feature == {"type": "string", "shape": [], "dense": True, "encoding": "wav", **common}
    for name in ("sample_rate", "num_frames"):
        assert feature_of(tmp_path / "out", name)["type"] == "int"


# Rejects ------------------------------------------------------------------------------------------

BAD = {
    "empty.wav": (b"", "EMPTY_FILE"),
    "text.mp3": (b"no sound", "NOT_AUDIO"),
    "photo.wav": (b"\x89PNG\r\n\x1a\n" + bytes(99), "NOT_AUDIO"),
    "cut.wav": (sound(7)[:-2], "TRUNCATED_AUDIO"),
    "silent.wav": (sound(7, frames=0), "NO_SAMPLES"),
    "other.aiff": (sound(7, "AIFF", subtype="PCM_16"), "UNSUPPORTED_FORMAT"),
}


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
        "../3.wav": "OUTSIDE_INPUT_BASE",
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


def test_a_vocabulary_sets_the_ids_and_rejects_the_rest(tmp_path):
    base = write_sounds(tmp_path / "in", ["yes/1.wav", "no/2.wav", "noise/3.wav"])
    manifest = convert(
        base, tmp_path / "out", vocabulary=["yes", "no", "maybe"], max_reject_fraction=0.5
    )
    check_law(manifest, tmp_path / "out")
    found = by_name(tmp_path / "out")
    assert {name: values["label"] for name, values in found.items()} == {
        "yes/1.wav": 0,
        "no/2.wav": 1,
    }
    assert vocabulary(tmp_path / "out") == ["yes", "no", "maybe"]
    assert rejects(tmp_path / "out").keys() == {"noise/3.wav"}


def test_a_speaker_is_in_one_split(tmp_path):
    rows = [["audio", "speaker"], *[[f"{n}.wav", f"s{n % 7}"] for n in range(42)]]
    write_sounds(tmp_path / "in", [row[0] for row in rows[1:]])
    write_tree(tmp_path / "in", {"list.csv": delimited(rows)})
    convert(tmp_path / "in", tmp_path / "out", group_by="speaker")
    pairs = {(v["speaker"], v["split"]) for v in by_name(tmp_path / "out").values()}
    assert len(pairs) == 7
    assert {split for _, split in pairs} == {"train", "eval"}


def test_stratified_splits_keep_the_shares_of_the_classes(tmp_path):
    names = [f"{'aaab'[n % 4]}/{n}.wav" for n in range(48)]
    convert(
        write_sounds(tmp_path / "in", names),
        tmp_path / "out",
        stratify=1,
        output_config=output_config(train=3, test=1),
    )
    counts = Counter(placed(tmp_path / "out").values())
    for label, total in (("a", 36), ("b", 12)):
        assert abs(counts["train", label] - total * 3 / 4) <= 1
        assert counts["train", label] + counts["test", label] == total


def test_shards_may_be_compressed(tmp_path):
    base = write_sounds(tmp_path / "in", ["a/1.wav", "b/2.wav"])
    convert(base, tmp_path / "out", compression="gzip")
    assert placed(tmp_path / "out").keys() == {"a/1.wav", "b/2.wav"}


# The same bytes -----------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def many(base: Path) -> Path:
    kinds = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3"}
    good = {
        f"{'abc'[n % 3]}/{n:02d}.{ending}": sound(n, kind)
        for n in range(40)
        for ending, kind in [[*kinds.items()][n % 4]]
    }
    bad = {f"a/{name}": data for name, (data, _) in BAD.items()}
    return write_tree(base, {**good, **bad})


SETTINGS = {"max_reject_fraction": 0.5, "target_shard_bytes": 2000, "sample_rate": 16_000}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["multi_threading", "multi_processing"])
def test_every_runner_gives_the_same_bytes(tmp_path, mode):
    base = many(tmp_path / "in")
    convert(base, tmp_path / "one", **SETTINGS)
    workers = ["--direct_num_workers=3", f"--direct_running_mode={mode}", "--runner=DirectRunner"]
    convert(base, tmp_path / "three", beam_pipeline_args=workers, **SETTINGS)
    assert contents(tmp_path / "three") == contents(tmp_path / "one")
    assert len(list((tmp_path / "one" / "Split-train").iterdir())) > 3


def test_the_same_input_gives_the_same_bytes_and_another_seed_others(tmp_path):
    many(tmp_path / "in")
    write_tree(tmp_path / "moved", dict(reversed(contents(tmp_path / "in").items())))
    convert(tmp_path / "in", tmp_path / "one", **SETTINGS)
    convert(tmp_path / "moved", tmp_path / "two", **SETTINGS)
    convert(tmp_path / "in", tmp_path / "three", seed=1, **SETTINGS)
    one, two, three = (contents(tmp_path / name) for name in ("one", "two", "three"))
    assert {name for name in one if one[name] != two.get(name)} == set()
    assert one.keys() == two.keys()
    assert three != one


# Readers ------------------------------------------------------------------------------------------


def samples_of(value: Any) -> np.ndarray:
    """Of WAV bytes, or of what has been decoded."""
    if isinstance(value, bytes):
        return tf.audio.decode_wav(value)[0].numpy()
    return value


def test_input_fn_gives_the_sounds(tmp_path):
    names = [
        f"{split}/{label}/{n}.wav" for split in ("train", "eval") for label in "ab" for n in "12"
    ]
    uri = run(write_sounds(tmp_path / "in", names), tmp_path / "out").uri
    given = {}
    for split in ("train", "eval"):
        for example in input_fn(uri, split, batch_size=None).as_numpy_iterator():
            given[example["filename"].decode()] = example
    assert given.keys() == {*names}
    for number, name in enumerate(names):
        example = given[name]
        expected = soundfile.read(io.BytesIO(sound(number)), always_2d=True)[0]
        np.testing.assert_array_equal(samples_of(example["audio"]), expected)
        assert (example["sample_rate"], example["num_frames"]) == (8000, FRAMES)
        assert example["label"] == "ab".index(name.split("/")[1])
    (batch,) = input_fn(uri, "train", batch_size=4, features=["audio"], label="label")
    assert len(batch[0]["audio"]) == len(batch[1]) == 4


@pytest.mark.e2e
def test_datum_statistics_gen_and_schema_gen_read_it(tmp_path):
    from datum.reader import load
    from tfx.components.schema_gen.executor import Executor as SchemaGen
    from tfx.components.statistics_gen.executor import Executor as StatisticsGen
    from tfx.utils import io_utils

    names = [
        f"{split}/{label}/{n}.wav" for split in ("train", "eval") for label in "ab" for n in "12"
    ]
    examples = run(write_sounds(tmp_path / "in", names), tmp_path / "out")
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
