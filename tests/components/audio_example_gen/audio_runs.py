"""Runs AudioExampleGen's executor, and reads what it wrote with TensorFlow's own reader."""

import functools
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from components.audio_example_gen import Executor
from tests.components import runs
from tests.make import write_files as write_tree

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


output_config, check_law = runs.output_config, runs.check_law
read = runs.rows_of
run = functools.partial(runs.run, Executor)


def convert(base: Path | str, uri: Path, **properties: Any) -> dict[str, Any]:
    """Runs the executor; returns the manifest."""
    run(base, uri, **properties)
    return json.loads((uri / "manifest.json").read_text())


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


vocabulary, placed = runs.vocabulary, runs.placed


def feature_of(uri: Path, name: str = "audio") -> dict[str, Any]:
    return json.loads((uri / "datum_to_type_and_shape_mapping.json").read_text())[name]


def rejects(uri: Path) -> dict[str, str]:
    """Codes by source."""
    return {line["source"]: line["code"] for line in runs.rejects_in(uri)}


# Rejects ------------------------------------------------------------------------------------------

BAD = {
    "empty.wav": (b"", "EMPTY_FILE"),
    "text.mp3": (b"no sound", "NOT_AUDIO"),
    "photo.wav": (b"\x89PNG\r\n\x1a\n" + bytes(99), "NOT_AUDIO"),
    "cut.wav": (sound(7)[:-2], "TRUNCATED_AUDIO"),
    "silent.wav": (sound(7, frames=0), "NO_SAMPLES"),
    "other.aiff": (sound(7, "AIFF", subtype="PCM_16"), "UNSUPPORTED_FORMAT"),
}
