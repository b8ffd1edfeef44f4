"""Build test data: photos, audio clips, tables, archives, folders of files, datasets.

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
    """Return an image as the bytes of a file."""
    stream = io.BytesIO()
    image.copy().save(stream, kind, **options)  # a copy, because saving modifies the image
    return stream.getvalue()


def photo(
    number: int = 0,
    kind: str = "JPEG",
    mode: str = "RGB",
    size: tuple[int, int] = (32, 24),
    **options: object,
) -> bytes:
    """Return an encoded crop of a real photo, of `(width, height)`; `number` selects the crop."""
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
    """Return an audio file, of 16 bits by default; `number` selects the pitch."""
    import soundfile

    stream = io.BytesIO()
    wave = 0.4 * np.sin(np.arange(frames) * (number + 1) / 20)
    subtype = "VORBIS" if kind == "OGG" else subtype
    soundfile.write(stream, np.stack([wave] * channels, 1), rate, format=kind, subtype=subtype)
    return stream.getvalue()


def table(rows: Sequence[Mapping[str, Any]], kind: str, **options: Any) -> bytes:
    """Return rows as `csv`, `jsonl` or `parquet`; the writer takes the options."""
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
    """Return a tar archive of files by name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode, **options) as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def write_files(base: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write files by path into a folder; strings as UTF-8, with unchanged line ends."""
    base.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return base


def frame_records(records: Sequence[bytes]) -> bytes:
    """Return the bytes of a TFRecord file with these records."""
    from trainer_utils.format.tfrecord import frame_parts

    framed = ((record, frame_parts([record])) for record in records)
    return b"".join(header + record + footer for record, (header, footer) in framed)


def write_anywhere(path: str, data: bytes) -> None:
    """Write a file by path or URL, and create its folder."""
    from trainer_utils import storage

    storage.make_folder(os.path.dirname(path))
    with storage.write_atomically(path, temporary_folder=os.path.dirname(path)) as stream:
        stream.write(data)


def write_records(path: str | Path, records: Sequence[bytes], compression: str = "") -> bytes:
    """Write a TFRecord file with TensorFlow's writer, create its folder, and return the bytes."""
    import tensorflow as tf

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return Path(path).read_bytes()


def write_rows(uri: Path | str, rows: Iterable[Mapping[str, Any]], **settings: Any) -> str:
    """Write rows to the split train of a dataset, with settings of `DatasetWriter`."""
    from trainer_utils import DatasetWriter

    with DatasetWriter(str(uri), **settings) as writer:
        for row in rows:
            writer.write("train", row)
    return str(uri)


@contextlib.contextmanager
def refusing(setting: str) -> Iterator[None]:
    """Check that a block raises the ConfigError of a setting."""
    import pytest

    from trainer_utils import ConfigError

    with pytest.raises(ConfigError) as caught:
        yield
    assert caught.value.setting == setting, caught.value


def everything(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file under a folder, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_python(
    code: str, *arguments: object, cwd: Path = REPOSITORY, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python program and return its output and status; `more` extends its environment."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
