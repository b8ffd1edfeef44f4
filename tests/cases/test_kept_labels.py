"""Messages say which labels the advice to leave files out would lose."""

import re
import shlex
import subprocess
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import pipelines
from tests.cases.examples import all_of, by_name, read_examples
from tests.cases.test_cures import boxes, labelme
from tests.make import jpeg, photo, wav, write_files
from trainer_utils.core.errors import InputError

Files = Mapping[str, bytes | str]


def next_to_images(ending: str, content: str, **more: str) -> Files:
    images = {f"{n}.jpg": jpeg(n) for n in range(2)}
    return {**images, **{f"{n}{ending}": content for n in range(2)}, **more}


CREATEML = '[{"image": "0.jpg", "annotations": [{"label": "a", "coordinates": {"x": 5}}]}]'
LOSSES: Mapping[str, tuple[Files, str]] = {
    "LabelMe": (next_to_images(".json", labelme("0.jpg")), "boxes"),
    "CreateML": ({"0.jpg": jpeg(0), "a.json": CREATEML}, "boxes"),
    "VisDrone": (next_to_images(".txt", "684,8,20,20,1,4,0,0\n"), "boxes"),
    "KITTI": (
        {"image_2/0.png": photo(0, "PNG"), "label_2/0.txt": "Car 0.00 0 -1.5 10 12 20 22 1.5\n"},
        "boxes",
    ),
    "DOTA": (
        {"a/0.png": photo(0, "PNG"), "b/0.txt": "gsd:0.1\n1 1 5 1 5 5 1 5 plane 0\n"},
        "boxes",
    ),
    "BDD": ({"0.jpg": jpeg(0), "a.json": '[{"labels": [{"box2d": {"x1": 1}}]}]'}, "boxes"),
    "captions": (next_to_images(".caption", "a photo of a cat\n"), "captions"),
    "lists": ({"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1), "c.txt": "a/0\nb/1\n"}, "labels or splits"),
    "array next to each image": (next_to_images(".npy", "\x93NUMPY\0"), "labels"),
    "arrays": ({"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1), "labels.mat": b"MATLAB\0\1"}, "labels"),
    "VOC": (next_to_images(".xml", "<annotation><x/></annotation>\n"), "labels"),
}


@pytest.mark.parametrize(("files", "loss"), LOSSES.values(), ids=LOSSES)
def test_refusal_names_the_lost_labels(files: Files, loss: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match=rf"which loses their {loss}: ignore="):
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))


def test_documents_cost_no_labels(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1), "b.pdf": b"%PDF-1.4\n"})
    with pytest.raises(InputError, match=r"To leave them out: ignore=\['\*\.pdf'\]"):
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))


def test_list_keeps_the_boxes(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {**next_to_images(".json", labelme("0.jpg")), **boxes("0.jpg")})
    settings = {"csv_path": "labels.csv", "ignore": ["*.json"]}
    result = pipelines.convert(
        str(tmp_path / "in"), str(tmp_path / "out"), splits={"train": 1}, **settings
    )
    assert by_name(read_examples(result))["0.jpg"]["labels"] == ["cat"]


@pytest.mark.parametrize("media", ["jpg", "wav"])
def test_packing_command_keeps_the_texts(media: str, tmp_path: Path) -> None:
    make: Callable[[int], bytes] = {"jpg": jpeg, "wav": wav}[media]
    files = {f"{n}.{media}": make(n) for n in range(4)} | {
        f"{n}.txt": f"text {n}" for n in range(4)
    }
    write_files(tmp_path / "in", files)
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))
    commands = re.search(r"(tar -cf .*?) && tfx-shards (convert .*? OUT)\. ", str(refused.value))
    assert commands is not None
    subprocess.run(shlex.split(commands[1]), check=True)
    archive = shlex.split(commands[2])[1]
    result = pipelines.convert(archive, str(tmp_path / "out"))
    texts = sorted(example["text"] for example in all_of(read_examples(result)))
    assert texts == [f"text {n}" for n in range(4)]


SPELLINGS = {
    "normalisation": (
        unicodedata.normalize("NFD", "photos/é.jpg"),
        unicodedata.normalize("NFC", "photos/é.jpg"),
        "in another Unicode normalisation",
    ),
    "case": ("photos/A.JPG", "Photos/a.jpg", "in another case"),
    "escapes": ("my photos/a.jpg", "my%20photos/a.jpg", "with their escapes decoded"),
}


@pytest.mark.parametrize(("stored", "listed", "how"), SPELLINGS.values(), ids=SPELLINGS)
def test_path_spelt_differently_is_found_and_reported(
    stored: str, listed: str, how: str, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    rows = f"filename,label\n{listed},a\nphotos/other.jpg,b\n"
    files = {stored: jpeg(1), "photos/other.jpg": jpeg(2), "list.csv": rows}
    write_files(tmp_path / "in", files)
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), splits={"train": 1})
    assert by_name(read_examples(result))[Path(stored).name]["label"] == "a"
    assert any(f"1 files are found {how}" in message for message in our_messages())


@pytest.mark.parametrize(("stored", "listed", "how"), SPELLINGS.values(), ids=SPELLINGS)
def test_path_in_a_list_of_a_split_is_found_as_well(
    stored: str, listed: str, how: str, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    lists = {"validation_list.txt": f"{listed}\n", "testing_list.txt": "b/2.jpg\n"}
    files = {stored: jpeg(1), "b/2.jpg": jpeg(2), "b/3.jpg": jpeg(3), **lists}
    write_files(tmp_path / "in", files)
    settings = {"layout": "split_lists"}
    splits = read_examples(
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), **settings)
    )
    assert [Path(example["filename"]).name for example in splits["eval"]] == [Path(stored).name]
    assert any(f"1 files are found {how}" in message for message in our_messages())


def test_path_that_may_be_either_of_two_files_is_not_guessed(tmp_path: Path) -> None:
    rows = "filename,label\nphotos/x.jpg,a\nphotos/other.jpg,b\n"
    files = {"photos/X.jpg": jpeg(1), "photos/x.JPG": jpeg(2), "photos/other.jpg": jpeg(3)}
    write_files(tmp_path / "in", {**files, "list.csv": rows})
    with pytest.raises(InputError, match="1 of 2 inputs were rejected"):
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), splits={"train": 1})


def test_list_of_images_is_read_in_the_form_of_the_advice(tmp_path: Path) -> None:
    files = {f"train/{c}/{n}.jpg": jpeg(n) for c in ("abbey", "bar") for n in range(2)}
    files |= {f"val_256/P_{n}.jpg": jpeg(n) for n in range(4)}
    lines = "".join(f"P_{n}.jpg {n % 2}\n" for n in range(4))
    write_files(tmp_path / "in", {**files, "places_val.txt": lines})
    with pytest.raises(InputError, match=r"such as 'val_256/P_0\.jpg abbey'; or list"):
        pipelines.convert(str(tmp_path / "in"), str(tmp_path / "no"))
    names = "".join(f"val_256/P_{n}.jpg {('abbey', 'bar')[n % 2]}\n" for n in range(4))
    write_files(tmp_path / "in", {"places_val.txt": names})
    splits = read_examples(pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out")))
    assert {split: len(examples) for split, examples in splits.items()} == {"train": 4, "eval": 4}
    assert {example["label"] for example in splits["eval"]} == {"abbey", "bar"}
