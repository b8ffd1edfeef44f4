"""Runs AudioExampleGen's executor, and reads what it wrote with TensorFlow's own reader."""

import csv
import functools
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import soundfile
import tensorflow as tf
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.audio_example_gen import Executor
from components.common.beam import IN_PROCESS_RUNNER

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


def delimited(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    return stream.getvalue()


# Rejects ------------------------------------------------------------------------------------------

BAD = {
    "empty.wav": (b"", "EMPTY_FILE"),
    "text.mp3": (b"no sound", "NOT_AUDIO"),
    "photo.wav": (b"\x89PNG\r\n\x1a\n" + bytes(99), "NOT_AUDIO"),
    "cut.wav": (sound(7)[:-2], "TRUNCATED_AUDIO"),
    "silent.wav": (sound(7, frames=0), "NO_SAMPLES"),
    "other.aiff": (sound(7, "AIFF", subtype="PCM_16"), "UNSUPPORTED_FORMAT"),
}
