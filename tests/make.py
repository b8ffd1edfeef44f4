"""What tests are made of: photos, sounds, trees of files, and what lies in a folder.

write_files(tmp_path / "in", {"cat/1.jpg": jpeg(1), "cat/2.wav": wav(2)})
"""

import contextlib
import csv
import functools
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

REPOSITORY = Path(__file__).parents[1]


@functools.cache
def _sample() -> Image.Image:
    from sklearn.datasets import load_sample_images

    return Image.fromarray(load_sample_images().images[0])


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    """An image as a file."""
    stream = io.BytesIO()
    image.copy().save(stream, kind, **options)  # a copy, since saving leaves traces
    return stream.getvalue()


def photo(
    number: int = 0,
    kind: str = "JPEG",
    mode: str = "RGB",
    size: tuple[int, int] = (32, 24),
    **options: object,
) -> bytes:
    """An encoded cut of a real photo of `(width, height)`; another number gives another cut."""
    x, y = number % 600, number // 600
    return encode(_sample().crop((x, y, x + size[0], y + size[1])).convert(mode), kind, **options)


jpeg = functools.partial(photo, kind="JPEG")


@functools.cache
def wav(
    number: int = 0,
    *,
    kind: str = "WAV",
    frames: int = 400,
    rate: int = 8000,
    channels: int = 1,
    subtype: str = "PCM_16",
) -> bytes:
    """A sound, of 16 bits where nothing else is said; another number gives another pitch."""
    import soundfile

    stream = io.BytesIO()
    wave = 0.4 * np.sin(np.arange(frames) * (number + 1) / 20)
    subtype = "VORBIS" if kind == "OGG" else subtype
    soundfile.write(stream, np.stack([wave] * channels, 1), rate, format=kind, subtype=subtype)
    return stream.getvalue()


def table(rows: Sequence[Mapping[str, Any]], kind: str, **options: Any) -> bytes:
    """Rows as `csv`, `jsonl` or `parquet`, whose writer takes the options."""
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet

        stream = io.BytesIO()
        pyarrow.parquet.write_table(pa.Table.from_pylist([*rows]), stream, **options)
        return stream.getvalue()
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0], **options)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def archive(files: Mapping[str, bytes | str], *, mode: Any = "w", **options: Any) -> bytes:
    """A tar with files by their names."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode, **options) as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def write_files(base: Path, files: Mapping[str, bytes | str]) -> Path:
    """A folder with files by their paths; texts as UTF-8, their line ends as they are."""
    base.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return base


def frame_records(records: Sequence[bytes]) -> bytes:
    """The TFRecord file of some records."""
    from trainer_utils.format.tfrecord import frame_parts

    framed = ((record, frame_parts([record])) for record in records)
    return b"".join(header + record + footer for record, (header, footer) in framed)


def write_anywhere(path: str, data: bytes) -> None:
    """A file by path or url, and the folder it is in."""
    from trainer_utils import storage

    storage.make_folder(os.path.dirname(path))
    with storage.write_atomically(path, temporary_folder=os.path.dirname(path)) as stream:
        stream.write(data)


def write_records(path: str | Path, records: Sequence[bytes], compression: str = "") -> bytes:
    """A file of records by TensorFlow's own writer, and the folder it is in; returns its bytes."""
    import tensorflow as tf

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return Path(path).read_bytes()


def write_rows(uri: Path | str, rows: Iterable[Mapping[str, Any]], **settings: Any) -> str:
    """A dataset of rows to train; the settings are those of `DatasetWriter`."""
    from trainer_utils import DatasetWriter

    with DatasetWriter(str(uri), **settings) as writer:
        for row in rows:
            writer.write("train", row)
    return str(uri)


@contextlib.contextmanager
def refusing(setting: str) -> Iterator[None]:
    """A block that ends with the error of a setting."""
    import pytest

    from trainer_utils import ConfigError

    with pytest.raises(ConfigError) as caught:
        yield
    assert caught.value.setting == setting, caught.value


def everything(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_python(
    code: str, *arguments: object, cwd: Path = REPOSITORY, **more: str
) -> subprocess.CompletedProcess[str]:
    """What a program prints and how it ends; `more` is added to its environment."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
