"""Test that a bad input is one reject, for any library error and for files that are replaced."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from components.example_gen import file_examples, file_shards
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.example_gen.text_pieces import find_pieces
from components.inputs.listing import FileTable, LayoutInputs
from components.media import audio, images
from components.media.options import AudioOptions
from components.runtime.runners import Runner
from components.runtime.workspace import prepare_workspace
from components.steps import conversion_of
from components.tables.pieces import TableOptions, select_settings
from components.tables.reading import PieceReader
from tests.make import photo, wav
from tests.make import write_files as write
from tests.trainer_utils.storage import test_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files

CHANGES = test_files.CHANGES


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """Fail a test that blocks on a pipe, after 120 seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError("it waits")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


def outcome(
    settings: Any, base: Path, uri: Path, *, between: Callable[[], object] = lambda: None
) -> dict[str, str]:
    """Plan, call `between`, and write; return the code of each reject by source.

    Check that found = written + rejected + skipped.
    """
    steps = conversion_of(str(base), settings)
    plan = steps.plan(str(uri))
    between()
    prepare_workspace(str(uri))
    write = file_shards.WriteMediaShard(
        plan.columns, plan.blobs, steps.located.base, str(uri), steps.settings
    )
    made = [write(task.argument) for task in plan.tasks]
    rejects = [*plan.rejects, *(reject for _, one in made for reject in one.rejects)]
    written = sum(shard.records for shard, _ in made)
    assert plan.found == written + len(rejects) + sum(plan.skipped.values())
    return {reject.source: reject.code for reject in rejects}


@pytest.mark.parametrize("into", CHANGES)
def test_file_replaced_after_listing_is_one_reject(tmp_path, into):
    change, code = CHANGES[into]
    files = {"a/1.jpg": photo(1), "b/2.jpg": photo(2), "b/3.jpg": photo(3)}
    base = write(tmp_path / "in", files)
    write(tmp_path / "outside", {"1.jpg": photo(1)})
    got = outcome(ImageSettings(), base, tmp_path / "out", between=lambda: change(base / "a/1.jpg"))
    assert got == {"a/1.jpg": code}


@pytest.mark.parametrize(
    ("into", "kind"),
    [
        *(("a pipe", kind) for kind in ("csv", "jsonl", "json", "parquet", "folder")),
        ("a link to a device", "csv"),
    ],
)
def test_text_table_replaced_after_listing_is_a_reject(tmp_path, into, kind):
    change, code = CHANGES[into]
    base = tmp_path / "in"
    rows = {
        "csv": b"text,label\none,x\ntwo,y\n",
        "jsonl": b'{"text": "one"}\n',
        "json": b'{"1": {"text": "one"}}',
        "folder": b"one",
        "parquet": b"",
    }
    name = f"a.{'txt' if kind == 'folder' else kind}"
    write(base, {name: rows[kind]})
    if kind == "parquet":
        pyarrow.parquet.write_table(pa.table({"text": ["one"]}), base / name)
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root="", files=files, media="text")
    settings = TextSettings(layout=kind)
    runner = Runner(processes=1)
    (piece,), _ = find_pieces([inputs], settings, workspace=str(tmp_path), runner=runner)
    change(base / name)
    read = PieceReader(str(base), select_settings(TableOptions, settings)).read(piece)
    assert (read.found, [bad.code for bad in read.bad]) == (1, [code])


RAISED = [RecursionError("deep"), StopIteration()]
STEPS = [
    (file_shards.BlobReader, "read"),
    (images, "scan_image"),
    (images, "_reasons"),
    (images, "orientation_of"),
    (images, "in_plain_colours"),
    (images, "encode_image"),
    (file_examples, "encode_values"),
    (file_shards, "encode_example"),
    *((audio, name) for name in ("_plain_wav", "_kind", "_decode", "_resample", "_wav")),
]


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
    """Make the first call of a function fail."""
    real, calls = getattr(owner, name), iter([True])

    def function(*args: Any, **more: Any) -> Any:
        if next(calls, False):
            raise error
        return real(*args, **more)

    monkeypatch.setattr(owner, name, function)


@pytest.mark.parametrize(
    ("owner", "name"), STEPS, ids=lambda value: getattr(value, "__name__", value)
)
def test_error_in_any_step_is_one_reject(tmp_path, monkeypatch, owner, name):
    exif = Image.Exif()
    exif[0x0112] = 6
    files = {f"{number}.png": photo(number, "PNG") for number in range(3)}
    files |= {"3.webp": photo(3, "WEBP", lossless=True), "4.jpg": photo(4, exif=exif)}
    settings: Any = ImageSettings()
    if owner is audio:
        files = {f"{number}.flac": wav(number, kind="FLAC") for number in range(3)}
        settings = AudioSettings(audio=AudioOptions(sample_rate=16_000))
    base, error = write(tmp_path / "in", files), RAISED[STEPS.index((owner, name)) % 2]
    fails_once(monkeypatch, owner, name, error)
    got = outcome(settings, base, tmp_path / "out")
    assert list(got.values()) == ["INTERNAL"]


@pytest.mark.parametrize("settings", [ImageSettings(), TextSettings()])
def test_unreadable_class_folder_ends_the_run(tmp_path, monkeypatch, settings):
    base = write(tmp_path / "in", {f"{c}/{n}.x": photo(n) for c in "abc" for n in range(2)})
    open_file, opened = os.open, []

    def refuse(path: str, *arguments: Any, **more: Any) -> int:
        opened.append(str(path))
        if str(path).endswith(("/b", "/.b")):
            raise PermissionError(13, "Permission denied")
        return open_file(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"in/b': .*Permission denied"):
        outcome(settings, base, tmp_path / "out")
    (base / "b").rename(base / ".b")  # a hidden folder, which is not listed
    opened.clear()
    assert conversion_of(str(base), settings)
    assert str(base / ".b") in opened
