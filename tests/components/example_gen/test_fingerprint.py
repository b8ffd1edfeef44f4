"""Test that the manifest's fingerprint depends on the inputs, and not on the settings."""

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import InputSelection
from components.example_gen.input_selection import fingerprint as listed
from components.example_gen.settings import ImageSettings, TextSettings
from components.example_gen.split_rules import Partition
from tests.make import archive, table
from tests.make import photo as any_photo
from tests.make import write_files as write

SPLITS = {"partition": Partition((("a", 3), ("b", 1)))}
SETTINGS: list[dict[str, Any]] = [
    {"seed": 5, "target_shard_bytes": 900, "compression": "gzip", "max_reject_fraction": 1.0},
    {"target_shard_bytes": 1 << 30, **SPLITS},
]
OF_IMAGES = [
    *SETTINGS,
    {"verify": "structure", "resize_shorter_side": 16},
    {"encoding": "raw", "resize_shorter_side": 16, "max_pixels": 30 * 24},
]
OF_TEXTS = [
    *SETTINGS,
    {"lowercase": True, "normalize": "NFC", "min_chars": 8},
    {"max_chars": 8, "deduplicate": True},
]


def photo(number: int) -> bytes:
    return any_photo(number, size=(24 if number % 2 else 32, 24))


def fingerprint(
    kind: type, base: Path, tmp_path: Path, partition: Partition | None = None, **settings: Any
) -> str:
    """Convert with these settings; return the input fingerprint."""
    uri = tmp_path / f"out-{len(os.listdir(tmp_path))}"
    asked = kind.from_arguments({"max_reject_fraction": 0.9, **settings})
    selection = InputSelection(base=str(base), partition=partition)
    return steps.convert(selection, str(uri), asked).manifest.input_fingerprint


def in_folders(base: Path) -> Path:
    files = {f"{'cat' if n % 3 else 'dog'}/{n}.jpg": photo(n) for n in range(12)}
    files |= {
        "cat/cut.jpg": photo(1)[:300],
        "cat/empty.jpg": b"",
        "cat/notes.jpg": b"none",
        "beside.jpg": photo(20),
        ".hidden/x": b"1",
    }
    return write(base, files)


def in_list(base: Path) -> Path:
    rows = [f"{n}.jpg,{'cat' if n % 3 else 'dog'},{n}" for n in range(12)]
    rows += ["gone.jpg,cat,1", "cut.jpg,dog,2", "5.jpg.txt,,3"]
    files = {f"{n}.jpg": photo(n) for n in range(12)}
    files |= {"cut.jpg": photo(2)[:300], "5.jpg.txt": b"x", "unlisted.jpg": photo(30)}
    return write(base, files | {"list.csv": "\n".join(["filename,label,n", *rows]).encode()})


def in_archive(base: Path) -> Path:
    files = {f"{n:03d}.jpg": photo(n) for n in range(12)}
    files |= {f"{n:03d}.cls": b"%d" % (n % 3) for n in range(12)}
    files |= {f"{n:03d}.json": b'{"a": 1}' for n in range(12)}
    return write(base, {"all.tar": archive(dict(sorted(files.items())))})


def in_parquet(base: Path) -> Path:
    images = [{"bytes": photo(n), "path": f"{n}.jpg"} for n in range(12)]
    rows = [{"image": image, "label": f"class {n % 3}"} for n, image in enumerate(images)]
    return write(base, {"all.parquet": table(rows, "parquet", row_group_size=5)})


def in_table(base: Path) -> Path:
    rows = [f"text {'x' * (n % 9)} {n % 20},{'good' if n % 3 else 'bad'},{n}" for n in range(60)]
    return write(base, {"t.csv": "\n".join(["text,label,n", *rows, "too,many,of,them"]).encode()})


def of_columns(base: Path, **options: Any) -> Path:
    base.mkdir(parents=True)
    numbers = [None if n % 7 == 0 else n for n in range(60)]
    columns = {
        "text": [f"text {'x' * (n % 9)} {n % 20}" for n in range(60)],
        "n": numbers,
        "f": pa.array(numbers, pa.float32()),
        "few": pa.array([["a", "b", None][n % 4 % 3] for n in range(60)]).dictionary_encode(),
        "lists": [[n, 2][: n % 3] for n in range(60)],
        "time": pa.array(numbers, pa.timestamp("s")),
        "b": pa.array([None if n is None else n % 2 > 0 for n in numbers]),
    }
    pq.write_table(pa.table(columns), base / "t.parquet", **{"row_group_size": 7, **options})
    return base


def in_documents(base: Path) -> Path:
    texts = [b"text %d" % (n % 9) + b"x" * (n % 4) for n in range(20)]
    files = {f"{'a' if n % 3 else 'b'}/{n}.txt": text for n, text in enumerate(texts)}
    return write(base, files | {"a/empty.txt": b"", "a/bad.txt": b"\xff\xfe\xfd", ".x": b""})


COLUMNS: list[dict[str, Any]] = [{"columns": {"n": "float"}}, {"columns": {"n": "ignore"}}]
INPUTS = {
    "folders": (in_folders, ImageSettings, OF_IMAGES, "cat/4.jpg"),
    "a list": (in_list, ImageSettings, [*OF_IMAGES, *COLUMNS], "4.jpg"),
    "an archive": (in_archive, ImageSettings, OF_IMAGES, None),
    "parquet": (in_parquet, ImageSettings, OF_IMAGES, None),
    "a table": (in_table, TextSettings, [*OF_TEXTS, *COLUMNS], None),
    "columns": (of_columns, TextSettings, [*OF_TEXTS, *COLUMNS], None),
    "documents": (in_documents, TextSettings, OF_TEXTS, "a/4.txt"),
}  # fmt: skip


@pytest.mark.parametrize("kind", INPUTS)
def test_fingerprint_does_not_depend_on_settings(kind, tmp_path):
    make, asked, settings, _ = INPUTS[kind]
    base = make(tmp_path / "in")
    one = fingerprint(asked, base, tmp_path)
    assert len(one) == 32
    for chosen in settings:
        assert fingerprint(asked, base, tmp_path, **chosen) == one, chosen
    if kind in ("folders", "a list"):
        given = {"label": ["cat"]}  # all other files are rejected without being read
        assert fingerprint(asked, base, tmp_path, vocabulary=given) == one
    moved = shutil.copytree(base, tmp_path / "elsewhere" / "in")
    assert fingerprint(asked, moved, tmp_path) == one, "wherever the inputs lie"


def change_of(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("kind", INPUTS)
def test_fingerprint_changes_with_an_input(kind, tmp_path):
    make, asked, _, one_file = INPUTS[kind]
    base = make(tmp_path / "in")
    seen = {fingerprint(asked, base, tmp_path)}
    changes: list[Any] = []
    if one_file:
        path = base / one_file
        changes += [
            lambda: path.write_bytes(change_of(path.read_bytes(), len(path.read_bytes()) - 3)),
            lambda: path.write_bytes(path.read_bytes() + b"\n"),
        ]
    if kind == "folders":
        changes += [
            lambda: path.rename(path.with_name("another.jpg")),
            lambda: (base / "cat/cut.jpg").write_bytes(photo(1)[:301]),
            lambda: (base / "cat/notes.jpg").write_bytes(b"some"),
            lambda: (base / "cat/empty.jpg").unlink(),
            lambda: (base / "beside.jpg").write_bytes(photo(22)),
            lambda: (base / "dog").rename(base / "cow"),
        ]
    if kind == "a list":
        text = (base / "list.csv").read_text()
        changes += [
            lambda: (base / "list.csv").write_text(text.replace("7.jpg,cat", "7.jpg,dog")),
            lambda: (base / "list.csv").write_text(text.replace("gone.jpg", "none.jpg")),
            lambda: (base / "cut.jpg").write_bytes(photo(2)[:301]),
        ]
    if kind == "an archive":
        data = (base / "all.tar").read_bytes()
        for found in (photo(3)[-40:], b'{"a": 1}'):
            at = data.index(found) + (7 if len(found) == 40 else 6)
            changes.append(lambda at=at: (base / "all.tar").write_bytes(change_of(data, at)))
    if kind in ("a table", "a list"):
        name = "t.csv" if kind == "a table" else "list.csv"
        changes.append(
            lambda: (base / name).write_text((base / name).read_text().replace("label", "class"))
        )
    for change in changes:
        change()
        now = fingerprint(asked, base, tmp_path, **SPLITS)
        assert now not in seen
        seen.add(now)


def balanced(uri: Path, tmp_path: Path, **settings: Any) -> str:
    """Balance a dataset; return the input fingerprint."""
    out = tmp_path / f"out-{len(os.listdir(tmp_path))}"
    made = steps.balance([str(uri)], str(out), BalancerSettings(**settings))
    return made.manifest.input_fingerprint


def test_junk_and_ignored_files_keep_the_fingerprint(tmp_path):
    base = in_folders(tmp_path / "in")
    located = steps.conversion_of(str(base), ImageSettings()).located
    before = fingerprint(ImageSettings, base, tmp_path), listed(located)
    for name in ("cat/.DS_Store", "Thumbs.db", "__MACOSX/1.jpg", "README.md", "cat/1.jpg.md5"):
        write(base, {name: b"x"})
    write(base, {"notes.txt": b"x"})
    ignore = {"ignore": ["*.txt"]}
    located = steps.conversion_of(str(base), ImageSettings(**ignore)).located
    assert (fingerprint(ImageSettings, base, tmp_path, **ignore), listed(located)) == before


def test_balancer_fingerprints_its_input_records(tmp_path, subtests):
    base = in_folders(tmp_path / "in")
    fingerprint(ImageSettings, base, tmp_path, target_shard_bytes=900)
    first = max(tmp_path.glob("out-*"))
    one = balanced(first, tmp_path)
    for settings in ({"seed": 9}, {"target_shard_bytes": 500}, {"compression": "gzip"}):
        with subtests.test(settings=settings):
            assert balanced(first, tmp_path, **settings) == one
    again = tmp_path / "in-other-shards"
    shutil.move(first, again)
    assert balanced(again, tmp_path) == one
    fingerprint(ImageSettings, base, tmp_path, **SPLITS)  # the same records in other splits
    other = max(tmp_path.glob("out-*"), key=os.path.getmtime)
    assert balanced(other, tmp_path) != one
