"""Faults of the machine while inputs are listed and read do not reject inputs.

A transient fault changes no byte of the dataset. A permanent fault ends the run with an error that
names the file and the fault, and no dataset is left.
"""

import errno
import gzip
import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.counts import drawn, some_of_any_or_all_of_each
from tests.faults.engine import Engine
from tests.faults.outputs import MANIFEST, check_whole, folders_of
from tests.make import archive, everything, jpeg, table, write_files

FAULTS = (
    *("EIO", "ESTALE", "EMFILE", "ENFILE", "ENOMEM"),
    *("ENOSPC", "EDQUOT", "ETIMEDOUT", "EREMOTEIO", "ENOTCONN"),
)
QUICK = 2  # failing calls per kind of input
FOR_EVER = 1_000_000
TIMES = (1, 3, FOR_EVER)
ROWS = [{"text": f"words {number}", "label": "ab"[number % 2]} for number in range(12)]
VOC = (
    "<annotation><size><width>32</width><height>24</height></size><object><name>cat</name>"
    "<bndbox><xmin>1</xmin><xmax>9</xmax><ymin>1</ymin><ymax>9</ymax></bndbox></object></annotation>"
)
COCO = {
    "images": [{"id": n, "file_name": f"{n}.jpg", "width": 32, "height": 24} for n in range(1, 5)],
    "categories": [{"id": 1, "name": "cat"}],
    "annotations": [
        {"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 9, 9], "area": 81, "iscrowd": 0}
        for n in range(1, 5)
    ],
}


class Source(NamedTuple):
    """The input of a conversion, and its output without faults."""

    step: str
    base: Path
    settings: dict[str, object]
    content: dict[str, bytes]
    folders: set[str]
    calls: int


PHOTOS = {n: jpeg(n) for n in range(1, 5)}
CSV = table(ROWS, "csv", lineterminator="\n")
MEMBERS = {f"{n}{end}": data for n in PHOTOS for end, data in ((".jpg", PHOTOS[n]), (".cls", b"1"))}
EMBEDDED = [{"image": data, "label": "ab"[n % 2]} for n, data in PHOTOS.items()]
FILES: dict[str, tuple[str, dict[str, bytes]]] = {
    "classes": ("images", {f"{'ab'[n % 2]}/{n}.jpg": data for n, data in PHOTOS.items()}),
    "list": (
        "images",
        {f"{n}.jpg": data for n, data in PHOTOS.items()}
        | {"list.csv": b"image,label\n" + b"".join(b"%d.jpg,a\n" % n for n in PHOTOS)},
    ),
    "voc": (
        "images",
        {f"JPEGImages/{n}.jpg": data for n, data in PHOTOS.items()}
        | {f"Annotations/{n}.xml": VOC.encode() for n in PHOTOS},
    ),
    "coco": (
        "images",
        {f"images/{n}.jpg": data for n, data in PHOTOS.items()}
        | {"annotations/instances_train.json": json.dumps(COCO).encode()},
    ),
    "webdataset": ("images", {"0.tar": archive(MEMBERS)}),
    "embedded": ("images", {"train.parquet": table(EMBEDDED, "parquet", row_group_size=2)}),
    "texts": ("texts", {f"{'ab'[n % 2]}/{n}.txt": b"some words" for n in range(4)}),
    "csv": ("texts", {"a.csv": CSV}),
    "gzip": ("texts", {"a.csv.gz": gzip.compress(CSV, mtime=0)}),
    "jsonl": ("texts", {"a.jsonl": table(ROWS, "jsonl")}),
    "json": ("texts", {"a.json": json.dumps(dict(enumerate(ROWS))).encode()}),
    "parquet": ("texts", {"a.parquet": table(ROWS, "parquet", row_group_size=5)}),
}
NAMES = (*FILES, "balance")


@pytest.fixture(scope="session")
def sources(tmp_path_factory, engine) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        base, uri = folder / "in", folder / "whole"
        step, settings = "balance", dict[str, object](num_shards=2, stratify_by="label")
        if name == "balance":
            shards = engine.run("images", found["classes"].base, base, target_shard_bytes=4096)
            assert shards.error == ""
        else:
            step, files = FILES[name]
            settings = {"max_reject_fraction": 1.0}
            write_files(base, files)
        run = engine.run(step, base, uri, refuse=(str(base), 0, "EIO", 1), **settings)
        assert run.error == ""
        content = everything(uri)
        assert b"rejects.jsonl" not in content[MANIFEST]
        found[name] = Source(step, base, settings, content, folders_of(uri), run.calls)
    return found


def check(
    source: Source, engine: Engine, folder: Path, number: int, fault: str, *, times: int
) -> None:
    """Check a run whose n-th call on the inputs fails, and further calls up to `times` in all."""
    uri = folder / "out"
    said = f"call {number} of {source.calls}, {fault} {times} times"
    refused = (str(source.base), number, fault, times)
    run = engine.run(source.step, source.base, uri, refuse=refused, **source.settings)
    assert run.status == 0, said
    assert times == FOR_EVER or run.error == "", said
    if not run.error:  # also possible for a permanent fault, if the last calls do not matter
        check_whole(uri, source.content, source.folders)
        return
    assert "DatasetError" in run.kinds, f"{said}: {run.kinds} {run.error}"
    assert fault in run.error, f"{said}: {run.error}"
    assert os.strerror(getattr(errno, fault)) in run.error, f"{said}: {run.error}"
    assert str(source.base) in run.error, f"{said}: {run.error}"
    assert not (uri / MANIFEST).exists(), said


@some_of_any_or_all_of_each("times", TIMES)
@pytest.mark.parametrize("name", NAMES)
def test_machine_fault_rejects_no_input(sources, engine, tmp_path, name, times, chance):
    source = sources[name]
    for number, how_often in drawn(chance, times, QUICK, range(1, source.calls + 1), TIMES):
        (own := tmp_path / f"{number}-{how_often}").mkdir()
        check(source, engine, own, number, chance.choice(FAULTS), times=how_often)
