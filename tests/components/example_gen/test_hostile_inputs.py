"""One bad input is one reject: whatever a library raises, and whatever is exchanged meanwhile."""

import errno
import io
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import soundfile
from PIL import Image, ImageFile
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2
from tfx.utils import proto_utils

from components.audio_example_gen import Executor as AudioExecutor
from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.common.workspace import start_working
from components.example_gen import file_shards
from components.example_gen.settings import TextSettings
from components.example_gen.tfx_properties import selection_of
from components.image_example_gen import Executor as ImageExecutor
from components.layouts import coco_instances, read_layout, voc
from components.layouts.texts import find_pieces
from components.media import audio, images
from components.steps import conversion_of
from components.tables import documents
from components.tables.options import TableOptions, select_settings
from components.tables.reading import read_piece
from components.text_example_gen import Executor as TextExecutor
from tests.trainer_utils.storage import test_files
from trainer_utils.format import DatasetError, InputError
from trainer_utils.storage import FileRefusedError, MachineError, list_files

CHANGES = test_files.CHANGES


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """Ends a test that waits for a pipe."""

    def stop(*_: object) -> None:
        raise TimeoutError("it waits")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


def photo(number: int, kind: str = "JPEG", **options: object) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (24, 32, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def sound(number: int) -> bytes:
    stream = io.BytesIO()
    wave = np.sin(np.arange(400) * (1 + number) / 20)
    soundfile.write(stream, wave, 8000, format="FLAC", subtype="PCM_16")
    return stream.getvalue()


def write(base: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(data)
    return base


def properties(base: Path, **settings: Any) -> dict[str, Any]:
    return {
        "input_base": str(base),
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
        **settings,
    }


def outcome(
    executor_class: Any,
    base: Path,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **settings: Any,
) -> dict[str, str]:
    """Plans, lets something happen, and writes: the code of each reject, after the law holds."""
    asked = properties(base, **settings)
    settings_asked = executor_class.settings_class.from_properties(asked)
    steps = conversion_of(selection_of(asked), settings_asked)
    plan = steps.plan(str(uri))
    between()
    start_working(str(uri))
    write = file_shards.WriteMediaShard(
        plan.columns, plan.blobs, steps.located.base, str(uri), steps.settings
    )
    made = [write(task.argument) for task in plan.tasks]
    rejects = [*plan.rejects, *(reject for _, one in made for reject in one.rejects)]
    written = sum(shard.records for shard, _ in made)
    assert plan.found == written + len(rejects) + sum(plan.skipped.values())
    return {reject.source: reject.code for reject in rejects}


@pytest.mark.parametrize(
    ("change", "code"), CHANGES.items(), ids=lambda value: getattr(value, "__name__", value)
)
def test_what_is_exchanged_between_listing_and_reading_is_one_reject(tmp_path, change, code):
    files = {"a/1.jpg": photo(1), "b/2.jpg": photo(2), "b/3.jpg": photo(3)}
    base = write(tmp_path / "in", files)
    write(tmp_path / "outside", {"1.jpg": photo(1)})
    got = outcome(ImageExecutor, base, tmp_path / "out", between=lambda: change(base / "a/1.jpg"))
    assert got == {"a/1.jpg": code}


@pytest.mark.parametrize("change", [test_files.replace_by_a_pipe, test_files.link_out])
def test_an_archive_that_is_exchanged_is_a_reject_for_each_member(tmp_path, change):
    base = tmp_path / "in"
    for archive in ("a", "b"):
        (base / archive).mkdir(parents=True)
        with tarfile.open(base / archive / "1.jpg", "w") as tar:
            for number in range(3):
                data = photo(number)
                member = tarfile.TarInfo(f"{archive}{number}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        (base / archive / "1.jpg").rename(base / archive / "x.tar")
    write(tmp_path / "outside", {"1.jpg": b"?"})
    got = outcome(ImageExecutor, base, tmp_path / "out", between=lambda: change(base / "a/x.tar"))
    assert got == {f"a/x.tar/a{number}.jpg": CODES[change] for number in range(3)}


CODES = {
    test_files.replace_by_a_pipe: "NOT_A_FILE",
    test_files.link_out: "OUTSIDE_INPUT_BASE",
    test_files.link_to_a_device: "OUTSIDE_INPUT_BASE",
    test_files.grow: "CHANGED_FILE",
}


@pytest.mark.parametrize("change", [test_files.replace_by_a_pipe, test_files.link_out])
def test_a_table_of_images_that_is_exchanged_is_a_reject_for_each_row(tmp_path, change):
    base = tmp_path / "in"
    (base / "a").mkdir(parents=True)
    table = pa.table({"image": [photo(1), photo(2)], "label": ["x", "y"]})
    pyarrow.parquet.write_table(table, base / "a/list.parquet")
    write(tmp_path / "outside", {"1.jpg": b"?"})
    got = outcome(
        ImageExecutor,
        base / "a/list.parquet",
        tmp_path / "out",
        between=lambda: change(base / "a/list.parquet"),
    )
    assert set(got.values()) == {CODES[change]}
    assert len(got) == 2


@pytest.mark.parametrize("change", [test_files.replace_by_a_pipe, test_files.link_to_a_device])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "folder"])
def test_a_table_of_texts_that_is_exchanged_is_a_reject(tmp_path, change, kind):
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
    inputs = LayoutInputs(base=str(base), root="", files=files)
    settings = TextSettings(layout=kind)
    (piece,), _ = find_pieces(inputs, settings, folder=str(tmp_path))
    change(base / name)
    read = read_piece(str(base), piece, select_settings(TableOptions, settings))
    assert (read.found, [bad.code for bad in read.bad]) == (1, [CODES[change]])


@pytest.mark.parametrize("change", [test_files.replace_by_a_pipe, test_files.link_to_a_device])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_table_that_is_exchanged_before_it_is_looked_at_is_left_out(tmp_path, change, name):
    base = write(tmp_path / "in", {name: b"text\none\n", f"b{name[1:]}": b"text\ntwo\n"})
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root="", files=files)
    change(base / name)
    with pytest.raises(InputError, match=CODES[change]):
        find_pieces(inputs, TextSettings(layout="csv"), folder=str(tmp_path))


@pytest.mark.parametrize("change", [test_files.replace_by_a_pipe, test_files.grow])
def test_a_list_that_is_exchanged_is_named_in_one_error(tmp_path, change):
    base = write(tmp_path / "in", {"list.csv": b"image\n1.jpg\n", "1.jpg": photo(1)})
    files = FileTable.of(list_files(str(base)))
    change(base / "list.csv")
    inputs = LayoutInputs(base=str(base), root="", files=files)
    with pytest.raises((InputError, FileRefusedError)) as caught:
        read_layout(inputs, layout="csv")
    assert CODES[change] in f"{caught.value} {getattr(caught.value, 'code', '')}"


def bad_exif() -> bytes:
    whole = photo(0)
    data = b"Exif\0\0nothing of the kind"
    return whole[:2] + b"\xff\xe1" + (len(data) + 2).to_bytes(2, "big") + data + whole[2:]


def test_damaged_exif_ends_nothing(tmp_path):
    files = {"1.jpg": bad_exif(), "2.jpg": photo(2)}
    files["3.png"] = photo(3, "PNG", exif=b"Exif\0\0nothing")
    files["4.webp"] = photo(4, "WEBP", exif=b"Exif\0\0nothing", lossless=True)
    base = write(tmp_path / "in", files)
    assert outcome(ImageExecutor, base, tmp_path / "out") == {}


RAISED = [RecursionError("deep"), SyntaxError("no"), StopIteration(), KeyError("x")]
STEPS = [
    (file_shards.BlobReader, "read"),
    (images, "scan_image"),
    (images, "channels_of"),
    (images, "frames_of"),
    (images, "orientation_of"),
    (images, "in_plain_colours"),
    (images, "encode_image"),
    (file_shards, "describe_media"),
    (file_shards, "encode_values"),
    (file_shards, "encode_example"),
]


def fails_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception, *, times: int = 1
) -> None:
    """Makes the first call of a function fail, or some more."""
    real, calls = getattr(owner, name), iter([True] * times)

    def function(*args: Any, **more: Any) -> Any:
        if next(calls, False):
            raise error
        return real(*args, **more)

    monkeypatch.setattr(owner, name, function)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("owner", "name"), STEPS, ids=lambda value: getattr(value, "__name__", value)
)
def test_whatever_any_step_raises_is_one_reject(tmp_path, monkeypatch, owner, name, error):
    files = {f"{number}.png": photo(number, "PNG") for number in range(3)}
    files["3.webp"] = photo(3, "WEBP", lossless=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    files["4.jpg"] = photo(4, exif=exif)
    base = write(tmp_path / "in", files)
    fails_once(monkeypatch, owner, name, error)
    got = outcome(ImageExecutor, base, tmp_path / "out")
    assert list(got.values()) == ["INTERNAL"]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("owner", "name"), [(Image, "open"), (ImageFile.ImageFile, "load")])
@pytest.mark.parametrize(
    "settings", [{}, {"resize_shorter_side": 8}, {"verify": "decode"}], ids=str
)
def test_whatever_pillow_raises_is_one_reject(tmp_path, monkeypatch, owner, name, error, settings):
    base = write(tmp_path / "in", {f"{n}.webp": photo(n, "WEBP") for n in range(3)})
    fails_once(monkeypatch, owner, name, error)
    (code,) = outcome(ImageExecutor, base, tmp_path / "out", **settings).values()
    assert code == {"open": "TRUNCATED_IMAGE", "load": "DAMAGED_IMAGE"}[name]


@pytest.mark.parametrize(
    ("owner", "name"), STEPS, ids=lambda value: getattr(value, "__name__", value)
)
def test_memory_that_runs_out_rejects_no_image(tmp_path, monkeypatch, owner, name):
    base = write(tmp_path / "in", {"0.png": photo(0, "PNG"), "1.webp": photo(1, "WEBP")})
    exif = Image.Exif()
    exif[0x0112] = 6
    write(base, {"2.jpg": photo(2, exif=exif)})
    fails_once(monkeypatch, owner, name, MemoryError(), times=2)
    assert outcome(ImageExecutor, base, tmp_path / "out") == {}
    fails_once(monkeypatch, owner, name, MemoryError(), times=1000)
    with pytest.raises(MachineError, match=r"[012]\.(png|webp|jpg)") as raised:
        outcome(ImageExecutor, base, tmp_path / "out")
    assert isinstance(raised.value, DatasetError)
    assert raised.value.errno == errno.ENOMEM


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["_plain_wav", "_kind", "_decode", "_resample", "_wav"])
def test_whatever_any_step_of_a_sound_raises_is_one_reject(tmp_path, monkeypatch, name, error):
    base = write(tmp_path / "in", {f"{number}.flac": sound(number) for number in range(3)})
    fails_once(monkeypatch, audio, name, error)
    got = outcome(AudioExecutor, base, tmp_path / "out", sample_rate=16_000)
    assert list(got.values()) == ["INTERNAL"]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_text_raises_is_one_reject(tmp_path, monkeypatch, error):
    base = write(tmp_path / "in", {f"{number}.md": b"words" for number in range(3)})
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root="", files=files)
    settings = TextSettings(layout="folder")
    (piece,), _ = find_pieces(inputs, settings, folder=str(tmp_path))
    fails_once(monkeypatch, documents, "_read", error)
    read = read_piece(str(base), piece, select_settings(TableOptions, settings))
    assert (read.found, [bad.code for bad in read.bad]) == (3, ["INTERNAL"])
    assert len(read.columns["text"]) == 2


_XML = b"<annotation><size><width>9</width><height>9</height></size></annotation>"
_COCO = b"""{"images": [{"id": 1, "file_name": "1.jpg", "width": 9, "height": 9},
{"id": 2, "file_name": "2.jpg", "width": 9, "height": 9}], "annotations": [], "categories": []}"""


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_an_annotation_raises_is_one_reject(tmp_path, monkeypatch, error):
    base = tmp_path / "voc"
    for number in (1, 2):
        write(base, {f"JPEGImages/{number}.jpg": b"", f"Annotations/{number}.xml": _XML})
    fails_once(monkeypatch, voc, "_parse", error)
    assert excluded(base, "voc") == ["INTERNAL"]
    base = write(tmp_path / "coco", {"annotations/instances_train.json": _COCO})
    write(base, {"images/1.jpg": b"", "images/2.jpg": b""})
    fails_once(monkeypatch, coco_instances.Instances, "values", error)
    assert excluded(base, "coco") == ["INTERNAL"]


def excluded(base: Path, layout: str) -> list[str | None]:
    files = FileTable.of(list_files(str(base)))
    listing = read_layout(LayoutInputs(base=str(base), root="", files=files), layout=layout)
    assert listing.found == 2
    return [left.code for left in listing.excluded]


@pytest.mark.parametrize("executor", [ImageExecutor, AudioExecutor, TextExecutor])
def test_a_class_that_cannot_be_looked_into_ends_the_run(tmp_path, monkeypatch, executor):
    make = sound if executor is AudioExecutor else photo
    base = write(tmp_path / "in", {f"{c}/{n}.x": make(n) for c in "abc" for n in range(2)})
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=r"in/b': .*Permission denied"):
        outcome(executor, base, tmp_path / "out")
    (base / "b").rename(base / ".b")  # where nothing is looked for
    monkeypatch.setattr(os, "scandir", lambda path: refuse(str(path).replace("/.b", "/b")))
    assert conversion_of(selection_of(properties(base)), executor.settings_class())


@pytest.mark.parametrize("executor", [ImageExecutor, AudioExecutor])
def test_an_input_base_that_cannot_be_looked_into_is_one_error(tmp_path, monkeypatch, executor):
    base = write(tmp_path / "in", {"1.jpg": photo(1)})

    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(
        InputError, match="in': expected a folder that can be looked into, got Perm"
    ):
        outcome(executor, base, tmp_path / "out")


def test_an_unreadable_list_beside_others_is_one_reject(tmp_path, monkeypatch):
    row = b"image,label\n%d.jpg,x\n"
    lists = {f"{name}.csv": row % number for number, name in enumerate(("train", "val", "test"))}
    base = write(tmp_path / "in", lists | {f"{n}.jpg": photo(n) for n in range(3)})
    real = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if str(path).endswith("val.csv"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert outcome(ImageExecutor, base, tmp_path / "out") == {"val.csv": "UNREADABLE"}
