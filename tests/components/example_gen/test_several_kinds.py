"""Test rows with images, clips, texts and numbers: all components write the same example."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.audio_example_gen import Executor as AudioExecutor
from components.image_example_gen import Executor as ImageExecutor
from components.text_example_gen import Executor as TextExecutor
from tests.components import runs
from tests.components.runs import output_config
from tests.make import photo as any_photo
from tests.make import table, wav, write_files

EXECUTORS = {"image": ImageExecutor, "audio": AudioExecutor, "text": TextExecutor}
COLUMNS = {"photo": "image", "clip": "audio", "caption": "text", "price": "float"}
MEASURED = {"filename", "height", "width", "channels", "sample_rate", "num_frames"}
NUMBERS = range(6)
Row = dict[str, Any]


def photo(number: int = 0, size: tuple[int, int] = (16, 12)) -> bytes:
    return any_photo(number, "PNG", size=size)


def clip(number: int = 0) -> bytes:
    return wav(number, frames=80 + number)


def row(number: int) -> Row:
    return {
        "photo": f"p/{number}.png",
        "clip": f"c/{number}.wav",
        "caption": f"what, {number} “quoted”",
        "price": number / 4 + 0.25,
    }


ROWS = [row(number) for number in NUMBERS]


def write_inputs(
    base: Path, rows: Sequence[Row], *, kind: str = "csv", files: Mapping[str, bytes] | None = None
) -> Path:
    """Write a list and the files `p/<n>.png` and `c/<n>.wav`.

    `files` replaces some of their contents; a file with empty contents is not written.
    """
    given = {
        f"list.{kind}": table(rows, kind, **({"row_group_size": 4} if kind == "parquet" else {}))
    }
    given |= {f"p/{n}.png": photo(n) for n in NUMBERS} | {f"c/{n}.wav": clip(n) for n in NUMBERS}
    return write_files(base, {n: data for n, data in (given | dict(files or {})).items() if data})


def run(base: Path | str, uri: Path, component: str = "image", **properties: Any) -> str:
    """Run a component's executor as TFX does; return the output URI."""
    settings = {"output_config": output_config(train=1), **properties}
    return runs.run(EXECUTORS[component], base, uri, **settings).uri


def read(uri: Path) -> dict[str, dict[str, Any]]:
    return {name: row for name, (_, row) in runs.by_filename(uri).items()}


def features(uri: Path) -> dict[str, Any]:
    return json.loads((uri / "datum_to_type_and_shape_mapping.json").read_text())


def check_law(uri: Path, *, found: int, rejected: int) -> None:
    runs.check_law(uri)
    total = runs.manifest_of(uri)["total"]
    assert (total["found"], total["rejected"]) == (found, rejected)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_components_write_equal_examples_of_all_kinds(tmp_path, kind, subtests):
    base = write_inputs(tmp_path / "in", ROWS, kind=kind)
    shards: dict[str, dict[str, bytes]] = {}
    for component in EXECUTORS:
        uri = tmp_path / component
        run(base, uri, component, columns=COLUMNS)
        shards[component] = {
            str(path.relative_to(uri)): path.read_bytes()
            for path in [*uri.glob("Split-*/*"), uri / "datum_to_type_and_shape_mapping.json"]
        }
        check_law(uri, found=6, rejected=0)
    assert shards["image"] == shards["audio"] == shards["text"]
    found = read(tmp_path / "image")
    assert found.keys() == {f"p/{n}.png" for n in NUMBERS}
    for n in NUMBERS:
        with subtests.test(n=n):
            assert found[f"p/{n}.png"] == {
                "photo": photo(n),
                "clip": clip(n),
                "caption": ROWS[n]["caption"].encode(),
                "price": ROWS[n]["price"],
                "filename": f"p/{n}.png".encode(),
                "height": 12,
                "width": 16,
                "channels": 3,
                "sample_rate": 8000,
                "num_frames": 80 + n,
            }


@pytest.mark.parametrize(
    ("kind", "component"), [("csv", "image"), ("jsonl", "audio"), ("parquet", "image")]
)
def test_file_columns_are_inferred(tmp_path, kind, component, subtests):
    run(write_inputs(tmp_path / "in", ROWS, kind=kind), tmp_path / "out", component)
    found = read(tmp_path / "out")
    assert len(found) == 6
    by_caption = {example["caption"].decode(): example for example in found.values()}
    for n in NUMBERS:
        with subtests.test(n=n):
            example = by_caption[ROWS[n]["caption"]]
            assert example.keys() == {*COLUMNS, *MEASURED}
            assert (example["photo"], example["clip"]) == (photo(n), clip(n))
            assert example["price"] == ROWS[n]["price"]


def test_two_images_in_a_row_are_two_features(tmp_path, subtests):
    files = {f"d/{n}.png": photo(n + 9, (5, 7)) for n in NUMBERS}
    rows = [{"left": f"p/{n}.png", "right": f"d/{n}.png", "n": n} for n in NUMBERS]
    base = write_inputs(tmp_path / "in", rows, files=files)
    run(base, tmp_path / "out", columns={"left": "image", "right": "image"})
    for n in NUMBERS:
        with subtests.test(n=n):
            example = read(tmp_path / "out")[f"p/{n}.png"]
            assert (example["left"], example["right"]) == (photo(n), files[f"d/{n}.png"])
            assert (example["height"], example["width"]) == (12, 16)  # of the first image column
    found = features(tmp_path / "out")
    assert (found["left"]["shape"], found["right"]["shape"]) == ([12, 16, 3], [7, 5, 3])


def test_several_rows_may_name_the_same_photo(tmp_path):
    rows = [{**r, "photo": "p/0.png"} for r in ROWS]
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    found = read(tmp_path / "out")
    assert len(found) == 6
    assert all(name.startswith("p/0.png") for name in found)
    assert sorted(example["clip"] for example in found.values()) == sorted(map(clip, NUMBERS))
    assert {example["photo"] for example in found.values()} == {photo(0)}


@pytest.mark.parametrize("component", ["image", "text"])
def test_row_with_a_missing_or_bad_file_is_rejected_by_name(tmp_path, component):
    files = {
        "c/1.wav": b"",  # not written
        "p/2.png": b"",
        "c/3.wav": clip(3)[:-2],
        "p/4.png": photo(4)[:40],
    }
    base = write_inputs(tmp_path / "in", ROWS, files=files)
    uri = tmp_path / "out"
    run(base, uri, component, columns=COLUMNS, max_reject_fraction=0.9)
    check_law(uri, found=6, rejected=4)
    assert read(uri).keys() == {"p/0.png", "p/5.png"}
    lines = {line["code"]: f"{line['source']} {line['detail']}" for line in runs.rejects_in(uri)}
    assert lines.keys() == {"FILE_NOT_FOUND", "TRUNCATED_AUDIO", "TRUNCATED_IMAGE"}
    assert "c/3.wav" in lines["TRUNCATED_AUDIO"]
    assert "p/4.png" in lines["TRUNCATED_IMAGE"]
    gone = {line["source"] for line in runs.rejects_in(uri) if line["code"] == "FILE_NOT_FOUND"}
    assert gone == {"c/1.wav", "p/2.png"}


def test_other_empty_cells_are_missing_features(tmp_path):
    rows = [dict(r) for r in ROWS]
    rows[1]["caption"] = rows[2]["price"] = ""
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    found = read(tmp_path / "out")
    assert found["p/1.png"].keys() == {*COLUMNS, *MEASURED} - {"caption"}
    assert found["p/2.png"].keys() == {*COLUMNS, *MEASURED} - {"price"}
    assert not features(tmp_path / "out")["price"]["dense"]
