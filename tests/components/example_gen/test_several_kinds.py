"""Rows that name images, sounds, texts and numbers: one example of them all, in each component."""

import csv
import functools
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
import soundfile
import tensorflow as tf
from PIL import Image
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.audio_example_gen import Executor as AudioExecutor
from components.common.beam import IN_PROCESS_RUNNER
from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen import lists
from components.image_example_gen import Executor as ImageExecutor
from components.text_example_gen import Executor as TextExecutor
from trainer_utils import input_fn
from trainer_utils.format import ConfigError, InputError
from trainer_utils.storage import list_files

EXECUTORS = {"image": ImageExecutor, "audio": AudioExecutor, "text": TextExecutor}
COLUMNS = {"photo": "image", "clip": "audio", "caption": "text", "price": "float"}
MEASURED = {"filename", "height", "width", "channels", "sample_rate", "num_frames"}
NUMBERS = range(6)
Row = dict[str, Any]


@functools.cache
def photo(number: int = 0, size: tuple[int, int] = (16, 12)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (40 * number % 256, 90, 200)).save(stream, "PNG")
    return stream.getvalue()


@functools.cache
def clip(number: int = 0) -> bytes:
    stream = io.BytesIO()
    wave = 0.4 * np.sin(np.arange(80 + number) * (number + 1) / 9)
    soundfile.write(stream, wave, 8000, format="WAV", subtype="PCM_16")
    return stream.getvalue()


def row(number: int) -> Row:
    return {
        "photo": f"p/{number}.png",
        "clip": f"c/{number}.wav",
        "caption": f"what, {number} “quoted”",
        "price": number / 4 + 0.25,
    }


ROWS = [row(number) for number in NUMBERS]


def as_csv(rows: Sequence[Row]) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def as_json_lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: Sequence[Row]) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame(list(rows)).to_parquet(stream, row_group_size=4)
    return stream.getvalue()


LISTS = {"csv": as_csv, "jsonl": as_json_lines, "parquet": as_parquet}


def write_inputs(
    base: Path, rows: Sequence[Row], *, kind: str = "csv", files: Mapping[str, bytes] | None = None
) -> Path:
    """A list, and the files `p/<n>.png` and `c/<n>.wav`; some of them others, or gone if empty."""
    given = {f"list.{kind}": LISTS[kind](rows)}
    given |= {f"p/{n}.png": photo(n) for n in NUMBERS} | {f"c/{n}.wav": clip(n) for n in NUMBERS}
    for name, data in (given | dict(files or {})).items():
        if data:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_bytes(data)
    return base


def run(base: Path | str, uri: Path, component: str = "image", **properties: Any) -> str:
    """Runs a component's executor as TFX does."""
    context = BaseBeamExecutor.Context(
        make_beam_pipeline_fn=lambda: beam.Pipeline(runner=IN_PROCESS_RUNNER)
    )
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    defaults = {
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": '{"split_config": {"splits": [{"name": "train", "hash_buckets": 1}]}}',
    }
    for name in ("columns", "vocabulary", "image_roots"):
        if name in properties:
            properties[name] = json.dumps(properties[name])
    EXECUTORS[component](context).Do(
        {}, {"examples": [artifact]}, {"input_base": str(base), **defaults, **properties}
    )
    return artifact.uri


def read(uri: Path) -> dict[str, dict[str, Any]]:
    """Every example by filename, by TensorFlow's own reader: single values, or lists of them."""
    found: dict[str, dict[str, Any]] = {}
    for record in tf.data.TFRecordDataset(sorted(map(str, uri.glob("Split-*/*")))):
        example: dict[str, Any] = {}
        for name, feature in tf.train.Example.FromString(record.numpy()).features.feature.items():
            values = list(getattr(feature, feature.WhichOneof("kind")).value)
            example[name] = values[0] if len(values) == 1 else values
        name = example["filename"].decode()
        assert name not in found, "in the dataset twice"
        found[name] = example
    return found


def features(uri: Path) -> dict[str, Any]:
    return json.loads((uri / "datum_to_type_and_shape_mapping.json").read_text())


def rejects(uri: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (uri / "rejects.jsonl").read_text().splitlines()]


def check_law(uri: Path, *, found: int, rejected: int) -> None:
    total = json.loads((uri / "manifest.json").read_text())["total"]
    written = len(read(uri))
    assert (total["found"], total["rejected"], total["written"]) == (found, rejected, written)
    assert found == written + rejected + total["skipped"]


# Whole rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTS)
def test_one_example_of_all_kinds_the_same_from_each_component(tmp_path, kind):
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


def test_the_features_say_what_each_column_is(tmp_path):
    run(write_inputs(tmp_path / "in", ROWS), tmp_path / "out", columns=COLUMNS)
    found = features(tmp_path / "out")
    assert found.keys() == {*COLUMNS, *MEASURED}
    assert (found["photo"]["type"], found["photo"]["shape"]) == ("string", [12, 16, 3])
    assert found["clip"] == {
        **{"type": "string", "shape": [], "dense": True, "encoding": "wav"},
        **{"sample_rate": 8000, "channels": 1},
    }
    assert (found["price"]["type"], found["caption"]["type"]) == ("float", "string")
    assert all(found[name]["type"] == "int" for name in MEASURED - {"filename"})


@pytest.mark.parametrize("component", ["image", "audio"])
@pytest.mark.parametrize("kind", LISTS)
def test_by_inspection_the_files_are_found(tmp_path, kind, component):
    run(write_inputs(tmp_path / "in", ROWS, kind=kind), tmp_path / "out", component)
    found = read(tmp_path / "out")
    assert len(found) == 6
    by_caption = {example["caption"].decode(): example for example in found.values()}
    for n in NUMBERS:
        example = by_caption[ROWS[n]["caption"]]
        assert example.keys() == {*COLUMNS, *MEASURED}
        assert (example["photo"], example["clip"]) == (photo(n), clip(n))
        assert example["price"] == ROWS[n]["price"]


def test_a_column_that_names_files_may_stay_text(tmp_path):
    base = write_inputs(tmp_path / "in", ROWS)
    run(base, tmp_path / "out", columns={**COLUMNS, "clip": "text"})
    for n, example in enumerate(read(tmp_path / "out")[f"p/{n}.png"] for n in NUMBERS):
        # With one file a row, the feature is called by its kind, as in any list of images.
        assert (example["clip"], example["image"]) == (f"c/{n}.wav".encode(), photo(n))
        assert "num_frames" not in example


def test_a_column_of_words_that_are_no_files_stays_text(tmp_path):
    rows = [{**r, "was": f"old/{n}.png", "code": "abc"} for n, r in enumerate(ROWS)]
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    for n in NUMBERS:
        example = read(tmp_path / "out")[f"p/{n}.png"]
        assert (example["was"], example["code"]) == (f"old/{n}.png".encode(), b"abc")


def test_two_images_a_row_are_two_features(tmp_path):
    files = {f"d/{n}.png": photo(n + 9, (5, 7)) for n in NUMBERS}
    rows = [{"left": f"p/{n}.png", "right": f"d/{n}.png", "n": n} for n in NUMBERS]
    base = write_inputs(tmp_path / "in", rows, files=files)
    run(base, tmp_path / "out", columns={"left": "image", "right": "image"})
    for n in NUMBERS:
        example = read(tmp_path / "out")[f"p/{n}.png"]
        assert (example["left"], example["right"]) == (photo(n), files[f"d/{n}.png"])
        assert (example["height"], example["width"]) == (12, 16)  # the first one's
    found = features(tmp_path / "out")
    assert (found["left"]["shape"], found["right"]["shape"]) == ([12, 16, 3], [7, 5, 3])


def test_the_first_file_column_names_the_example(tmp_path):
    rows = [{key: r[key] for key in ("price", "clip", "caption", "photo")} for r in ROWS]
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    assert read(tmp_path / "out").keys() == {f"c/{n}.wav" for n in NUMBERS}


def test_the_same_photo_may_stand_in_several_rows(tmp_path):
    rows = [{**r, "photo": "p/0.png"} for r in ROWS]
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    found = read(tmp_path / "out")
    assert len(found) == 6
    assert all(name.startswith("p/0.png") for name in found)
    assert sorted(example["clip"] for example in found.values()) == sorted(map(clip, NUMBERS))
    assert {example["photo"] for example in found.values()} == {photo(0)}


def test_filenames_differ_even_from_a_file_that_is_called_like_a_row(tmp_path):
    # The third row, in line 4, is the second of p/0.png.
    names = ["p/0.png", "p/0.png#4", "p/0.png", "p/0.png#4", "p/1.png", "p/1.png"]
    rows = [{**r, "photo": name} for r, name in zip(ROWS, names, strict=True)]
    files = {"p/0.png#4": photo(4)}
    base = write_inputs(tmp_path / "in", rows, files=files)
    run(base, tmp_path / "out", columns=COLUMNS)
    assert len(read(tmp_path / "out")) == 6


def test_a_file_column_called_filename_does_not_hide_where_examples_are_from(tmp_path):
    rows = [{"filename": r["photo"], "clip": r["clip"]} for r in ROWS]
    base = write_inputs(tmp_path / "in", rows)
    run(base, tmp_path / "out", columns={"filename": "image", "clip": "audio"})
    found = read(tmp_path / "out")
    assert found.keys() == {f"p/{n}.png" for n in NUMBERS}
    assert [found[f"p/{n}.png"]["image"] for n in NUMBERS] == [photo(n) for n in NUMBERS]


def test_labels_splits_lists_and_ignored_columns_are_as_ever(tmp_path):
    rows = [
        {**r, "label": "ba"[n % 2], "split": ["train", "test"][n // 4], "ids": [n, 7], "no": "x"}
        for n, r in enumerate(ROWS)
    ]
    base = write_inputs(tmp_path / "in", rows, kind="jsonl")
    columns = {**COLUMNS, "no": "ignore"}
    run(base, tmp_path / "out", columns=columns, output_config="{}")
    assert (tmp_path / "out/vocab/label.txt").read_text().splitlines() == ["a", "b"]
    found = read(tmp_path / "out")
    for n in NUMBERS:
        example = found[f"p/{n}.png"]
        assert example.keys() == {*COLUMNS, *MEASURED, "label", "ids"}
        assert (example["label"], example["ids"]) == ([1, 0][n % 2], [n, 7])
    splits = json.loads((tmp_path / "out/manifest.json").read_text())["splits"]
    assert {name: entry["records"] for name, entry in splits.items()} == {"train": 4, "test": 2}


@pytest.mark.parametrize("kind", ["photo", "clip"])
def test_bytes_in_a_parquet_file_stand_beside_files(tmp_path, kind):
    make = {"photo": photo, "clip": clip}[kind]
    rows = [{**r, kind: {"bytes": make(n), "path": None}} for n, r in enumerate(ROWS)]
    base = write_inputs(tmp_path / "in", rows, kind="parquet")
    run(base, tmp_path / "out", columns=COLUMNS)
    found = {e["caption"].decode(): e for e in read(tmp_path / "out").values()}
    for n in NUMBERS:
        example = found[ROWS[n]["caption"]]
        assert example.keys() == {*COLUMNS, *MEASURED}
        assert (example["photo"], example["clip"]) == (photo(n), clip(n))


# Rows that lack something -------------------------------------------------------------------------


@pytest.mark.parametrize("component", EXECUTORS)
def test_a_row_whose_file_is_missing_or_bad_is_a_reject_that_names_it(tmp_path, component):
    files = {
        "c/1.wav": b"",  # not there
        "p/2.png": b"",
        "c/3.wav": clip(3)[:-2],
        "p/4.png": photo(4)[:40],
    }
    base = write_inputs(tmp_path / "in", ROWS, files=files)
    uri = tmp_path / "out"
    run(base, uri, component, columns=COLUMNS, max_reject_fraction=0.9)
    check_law(uri, found=6, rejected=4)
    assert read(uri).keys() == {"p/0.png", "p/5.png"}
    lines = {line["code"]: f"{line['source']} {line['detail']}" for line in rejects(uri)}
    assert lines.keys() == {"FILE_NOT_FOUND", "TRUNCATED_AUDIO", "TRUNCATED_IMAGE"}
    assert "c/3.wav" in lines["TRUNCATED_AUDIO"]
    assert "p/4.png" in lines["TRUNCATED_IMAGE"]
    gone = {line["source"] for line in rejects(uri) if line["code"] == "FILE_NOT_FOUND"}
    assert gone == {"c/1.wav", "p/2.png"}


def test_a_row_without_a_file_is_a_reject_that_names_the_line(tmp_path):
    rows = [dict(r) for r in ROWS]
    rows[1]["photo"] = ""
    rows[2]["clip"] = ""
    base = write_inputs(tmp_path / "in", rows)
    run(base, tmp_path / "out", columns=COLUMNS, max_reject_fraction=0.9)
    check_law(tmp_path / "out", found=6, rejected=2)
    details = sorted(line["detail"] for line in rejects(tmp_path / "out"))
    assert ["line 3" in details[0], "line 4" in details[1]] == [True, True]


def test_other_missing_cells_are_missing_features(tmp_path):
    rows = [dict(r) for r in ROWS]
    rows[1]["caption"] = rows[2]["price"] = ""
    run(write_inputs(tmp_path / "in", rows), tmp_path / "out", columns=COLUMNS)
    found = read(tmp_path / "out")
    assert found["p/1.png"].keys() == {*COLUMNS, *MEASURED} - {"caption"}
    assert found["p/2.png"].keys() == {*COLUMNS, *MEASURED} - {"price"}
    assert not features(tmp_path / "out")["price"]["dense"]


@pytest.mark.parametrize("case", ["first file gone", "a cell empty"])
def test_by_inspection_a_column_of_files_with_a_hole_does_not_turn_to_text(tmp_path, case):
    rows = [{"image": r["photo"], "sound": r["clip"]} for r in ROWS]
    files: dict[str, bytes] = {}
    if case == "first file gone":
        files["c/0.wav"] = b""
    else:
        rows[3]["sound"] = ""
    base = write_inputs(tmp_path / "in", rows, files=files)
    run(base, tmp_path / "out", max_reject_fraction=0.5)
    check_law(tmp_path / "out", found=6, rejected=1)
    assert all(example["sound"][:4] == b"RIFF" for example in read(tmp_path / "out").values())


# Bad settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", EXECUTORS)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**COLUMNS, "foto": "image"}, "'foto'"),
        ({**COLUMNS, "photo": "picture"}, "'picture'"),
        ({**COLUMNS, "caption": "split", "price": "split"}, "split"),
    ],
    ids=["no such column", "no such kind", "two splits"],
)
def test_bad_columns_are_refused_by_name(tmp_path, component, columns, message):
    base = write_inputs(tmp_path / "in", ROWS)
    with pytest.raises((ConfigError, InputError), match=message):
        run(base, tmp_path / "out", component, columns=columns)


# Readers ------------------------------------------------------------------------------------------


def samples_of(value: Any) -> np.ndarray:
    """Of WAV bytes, or of what has been decoded."""
    return tf.audio.decode_wav(value)[0].numpy() if isinstance(value, bytes) else value


@pytest.mark.e2e
def test_datum_and_input_fn_read_it_alike(tmp_path):
    from datum.reader import load

    uri = run(write_inputs(tmp_path / "in", ROWS), tmp_path / "out", columns=COLUMNS)
    loaded = load(uri)
    loaded.dataset_configs.batch_size_val = 1
    theirs = {
        example["filename"].numpy()[0]: {k: v.numpy()[0] for k, v in example.items()}
        for example in loaded.val_fn("train")
    }
    ours = {
        example["filename"]: example
        for example in input_fn(uri, "train", batch_size=None).as_numpy_iterator()
    }
    assert len(ours) == len(theirs) == 6
    for n in NUMBERS:
        one, other = ours[f"p/{n}.png".encode()], theirs[f"p/{n}.png".encode()]
        assert one.keys() == other.keys() == {*COLUMNS, *MEASURED}
        assert other["clip"] == clip(n)
        np.testing.assert_array_equal(samples_of(one["clip"]), samples_of(other["clip"]))
        pixels = np.asarray(Image.open(io.BytesIO(photo(n))))
        np.testing.assert_array_equal(one["photo"], pixels)
        np.testing.assert_array_equal(other["photo"], pixels)
        assert one["caption"] == other["caption"] == ROWS[n]["caption"].encode()
        assert one["price"] == other["price"] == np.float32(ROWS[n]["price"])


# What files are, not what their columns are called ------------------------------------------------

FILE_COLUMNS = ("filename", "image", "audio", "path", "photo", "clip", "image_uri", "anything")


def list_of(base: Path, columns: Mapping[str, Sequence[bytes]], *, endings: str = "") -> Path:
    """A list whose columns name files of some bytes; the endings are right, or as said."""
    rows = len(next(iter(columns.values())))
    lines = [",".join(columns)]
    base.mkdir(parents=True)
    for number in range(rows):
        names = []
        for column, files in columns.items():
            ending = endings or (".wav" if files[number][:4] == b"RIFF" else ".png")
            names.append(f"{column}-{number}{ending}")
            (base / names[-1]).write_bytes(files[number])
        lines.append(",".join(names))
    (base / "list.csv").write_text("\n".join(lines) + "\n")
    return base


PHOTOS, CLIPS = [*map(photo, NUMBERS)], [*map(clip, NUMBERS)]


@pytest.mark.parametrize("component", EXECUTORS)
@pytest.mark.parametrize("first", FILE_COLUMNS)
@pytest.mark.parametrize("second", ["photo", "filename", "audio"])
def test_columns_hold_what_their_files_are_whatever_they_are_called(
    tmp_path, component, first, second
):
    if first == second:
        return
    for sounds, photos in ((first, second), (second, first)):
        base = list_of(tmp_path / sounds, {first: [], second: []} | {sounds: CLIPS, photos: PHOTOS})
        inputs = LayoutInputs(
            base=str(base),
            root="list.csv",
            files=FileTable.of(list_files(str(base))),
            media="audio" if component == "audio" else "image",
        )
        listing = lists.read(inputs, ["list.csv"])
        kinds = {
            entry.blobs[n].path.partition("-")[0]: blob.kind
            for n, blob in enumerate(listing.blobs)
            for entry in listing.entries
        }
        assert kinds == {sounds: "audio", photos: "image"}
        assert not listing.excluded
        assert not listing.columns


@pytest.mark.parametrize("endings", ["", ".png", ".wav"])
def test_a_list_of_sounds_called_filename_and_photos_becomes_a_dataset(tmp_path, endings):
    columns = {"filename": CLIPS, "photo": PHOTOS}
    base = list_of(tmp_path / "in", columns, endings=endings)
    uri = run(base / "list.csv", tmp_path / "out")
    manifest_json = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest_json["total"]["written"], manifest_json["total"]["rejected"]) == (6, 0)
    (frames,) = input_fn(uri, split="train", batch_size=6, shuffle=False, features="num_frames")
    assert sorted(frames.numpy().tolist()) == [80 + number for number in NUMBERS]


def test_images_and_sounds_in_one_column_are_one_clear_error(tmp_path):
    base = list_of(tmp_path / "in", {"filename": [*CLIPS[:3], *PHOTOS[3:]]})
    message = r"'filename': expected files of one kind.*'filename-0\.wav' \(line 2\)"
    with pytest.raises(InputError, match=message):
        run(base / "list.csv", tmp_path / "out")


def test_one_sound_among_many_photos_is_a_reject(tmp_path):
    base = list_of(tmp_path / "in", {"filename": [*PHOTOS * 4, clip()]})
    run(base / "list.csv", tmp_path / "out", max_reject_fraction=0.5)
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["total"]
    assert (counts["written"], counts["rejected"]) == (24, 1)


def test_a_column_of_urls_beside_photos_is_a_feature(tmp_path):
    base = list_of(tmp_path / "in", {"photo": PHOTOS})
    lines = [f"photo-{n}.png,https://example.com/{n}" for n in NUMBERS]
    (base / "list.csv").write_text("\n".join(["photo,url", *lines]) + "\n")
    run(base / "list.csv", tmp_path / "out")
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["total"]
    assert (counts["written"], counts["rejected"]) == (6, 0)


@pytest.mark.parametrize("as_struct", [False, True])
def test_two_columns_of_bytes_are_what_their_bytes_are(tmp_path, as_struct):
    def kept(data: bytes) -> Any:
        return {"bytes": data, "path": None} if as_struct else data

    frame = pd.DataFrame({"image": map(kept, CLIPS), "second": map(kept, PHOTOS)})
    (tmp_path / "in").mkdir()
    frame.to_parquet(tmp_path / "in" / "t.parquet")
    run(tmp_path / "in" / "t.parquet", tmp_path / "out")
    features = json.loads((tmp_path / "out" / "datum_to_type_and_shape_mapping.json").read_text())
    assert features["image"]["encoding"] == "wav"
    assert len(features["second"]["shape"]) == 3


def test_bytes_that_are_neither_are_an_error_and_its_cure_is_one(tmp_path):
    frame = pd.DataFrame({"image": PHOTOS, "vector": [b"\0\1\2\3"] * len(PHOTOS)})
    (tmp_path / "in").mkdir()
    frame.to_parquet(tmp_path / "in" / "t.parquet")
    with pytest.raises(InputError, match=r"'vector'.*columns=\{'vector': 'ignore'\}"):
        run(tmp_path / "in" / "t.parquet", tmp_path / "out")
    run(tmp_path / "in" / "t.parquet", tmp_path / "more", columns={"vector": "ignore"})
