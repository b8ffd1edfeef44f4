"""Inputs that docs/coming-from.md reads: WebDataset archives, and a clone of a Hub repository."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

NUM = 24


def jpegs() -> list[bytes]:
    """Return the JPEG files of 24 images of random pixels."""
    rng = np.random.default_rng(0)
    files = []
    for _ in range(NUM):
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (32, 40, 3), np.uint8)).save(stream, "JPEG")
        files.append(stream.getvalue())
    return files


def write_inputs_of_others(folder: Path) -> None:
    """Write `archives/` with two tar files, and `clone/` with images in Parquet."""
    write_archives(folder / "archives")
    (folder / "clone/data").mkdir(parents=True)
    images = [{"bytes": data, "path": f"{number}.jpg"} for number, data in enumerate(jpegs())]
    table = pa.table({"image": images, "label": [number % 2 for number in range(NUM)]})
    pq.write_table(table, folder / "clone/data/train-00000.parquet")


def write_archives(folder: Path) -> None:
    """Write two archives of WebDataset's form, with 12 images each."""
    folder.mkdir(parents=True)
    files = jpegs()
    for part in range(2):
        with tarfile.open(folder / f"train-{part:06d}.tar", "w") as archive:
            for number in range(part, NUM, 2):
                members = {"jpg": files[number], "cls": str(number % 3).encode()}
                for suffix, data in members.items():
                    member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
