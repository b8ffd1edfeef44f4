"""Datasets as their authors publish them, small: read correctly, or refused with a cure that works.

A case with `advice` is refused by a message that contains it, and is right with `settings`.
"""

import base64
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import pipelines
from tests.cases.examples import all_of, counts, read_examples
from tests.cases.inputs import CATS_AND_DOGS, csv_text, voc_document
from tests.make import archive, jpeg, photo, run_python, wav, write_files
from trainer_utils.core.errors import InputError

Files = dict[str, bytes | str]
BOX = "0.5 0.5 0.25 0.5\n"
SIZE = (32, 24)


@dataclasses.dataclass(frozen=True)
class Download:
    """Files, the examples of each split, and one feature of all examples, sorted."""

    files: Callable[[], Files]
    splits: Mapping[str, int]
    feature: str
    values: Sequence[Any]
    advice: Sequence[str] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def photos(folders: Sequence[str], count: int = 3) -> Files:
    """Return photos in folders, all of different names and pixels."""
    return {
        f"{folder}/{place}{n}.jpg": jpeg(10 * place + n)
        for place, folder in enumerate(folders)
        for n in range(count)
    }


def yolo_with_lists(prefix: str, folder: str = "images", labels: str = "labels") -> Files:
    files: Files = {}
    for n in range(6):
        files |= {f"{folder}/im{n}.jpg": jpeg(n), f"{labels}/im{n}.txt": f"{n % 2} {BOX}"}
    files["train.txt"] = csv_text(*(f"{prefix}{folder}/im{n}.jpg" for n in range(4)))
    files["val.txt"] = csv_text(*(f"{prefix}{folder}/im{n}.jpg" for n in range(4, 6)))
    return files


def yolo_of_ultralytics(prefix: str) -> Files:
    yaml = "train: train.txt\nval: val.txt\nnames: [cat, dog]\n"
    return yolo_with_lists(prefix) | {"data.yaml": yaml}


def yolo_of_darknet() -> Files:
    data = "classes = 2\ntrain = data/train.txt\nvalid = data/val.txt\nnames = data/obj.names\n"
    files = yolo_with_lists("data/", "obj_train_data", "obj_train_data")
    return files | {"obj.data": data, "obj.names": "cat\ndog\n"}


def open_images() -> Files:
    files: Files = {"class-descriptions-boxable.csv": csv_text("/m/1,Cat", "/m/2,Dog")}
    for place, (split, count) in enumerate((("train", 4), ("validation", 2))):
        ids = [f"{split[0]}{n:05x}" for n in range(count)]
        files |= {f"{split}/{name}.jpg": jpeg(10 * place + n) for n, name in enumerate(ids)}
        rows = (f"{name},/m/{n},0.1,0.5,0.25,0.75" for name in ids for n in (1, 2))
        files[f"{split}-annotations-bbox.csv"] = csv_text(
            "ImageID,LabelName,XMin,XMax,YMin,YMax", *rows
        )
    return files


def kaggle_with_test_list() -> Files:
    files: Files = {f"train_images/{n:05d}.png": photo(n, "PNG") for n in range(6)}
    files |= {f"test_images/{n:05d}.png": photo(n, "PNG") for n in (50, 51)}
    rows = (f"{n:05d},{CATS_AND_DOGS[n % 2]}" for n in range(6))
    files["train.csv"] = csv_text("id_code,label", *rows)
    return files | {"test.csv": csv_text("id_code", "00050", "00051")}


def oxford_pets() -> Files:
    files: Files = {}
    for n in range(4):
        name = f"pet_{n}"
        files[f"images/{name}.jpg"] = jpeg(n)
        files[f"annotations/trimaps/{name}.png"] = photo(n, "PNG", "L")
        files[f"annotations/xmls/{name}.xml"] = voc_document(
            f"{name}.jpg", SIZE, {CATS_AND_DOGS[n % 2]: (1, 2, 10, 12)}
        )
    return files


def stanford_dogs() -> Files:
    files: Files = {}
    for n in range(4):
        place = f"n02-{CATS_AND_DOGS[n % 2]}/n02_{n}"
        files[f"Images/{place}.jpg"] = jpeg(n)
        files[f"Annotation/{place}"] = voc_document(
            f"n02_{n}", SIZE, {CATS_AND_DOGS[n % 2]: (1, 2, 10, 12)}
        )
    return files


def voc_of_two_years() -> Files:
    files: Files = {}
    for place, year in enumerate(("VOC2007", "VOC2012")):
        for n in range(3):
            name, base = f"{year[3:]}_{n}", f"VOCdevkit/{year}"
            files[f"{base}/JPEGImages/{name}.jpg"] = jpeg(10 * place + n)
            files[f"{base}/Annotations/{name}.xml"] = voc_document(
                f"{name}.jpg", SIZE, {"cat": (1, 2, 10, 12)}
            )
        files[f"{base}/ImageSets/Main/train.txt"] = f"{year[3:]}_0\n{year[3:]}_1\n"
        files[f"{base}/ImageSets/Main/val.txt"] = f"{year[3:]}_2\n"
    return files


def transcripts(*lists: str) -> Files:
    files: Files = {f"wavs/utt_{n}.wav": wav(n) for n in range(6)}
    size = 6 // len(lists)
    for place, name in enumerate(lists):
        own = range(place * size, (place + 1) * size)
        files[name] = csv_text(*(f'utt_{n}|He said "{n}, and so' for n in own))
    return files


def tables(*names: str) -> Files:
    return {name: csv_text("text,label", f"{name} 1,p", f"{name} 2,n") for name in names}


def reviews() -> Files:
    folders = ("train/pos", "train/neg", "train/unsup", "test/pos", "test/neg")
    return {f"{folder}/{n}.txt": f"{folder} {n}" for folder in folders for n in range(2)}


def document_with_rows() -> Files:
    rows = [{"text": f"t {n}", "label": "pn"[n % 2]} for n in range(4)]
    return {"train.json": json.dumps({"version": "1.1", "data": rows})}


def img2dataset() -> Files:
    files: Files = {}
    for shard in range(6):
        key = f"{shard:05d}0000"
        files[f"{shard:05d}.tar"] = archive({f"{key}.jpg": jpeg(shard), f"{key}.txt": f"c {shard}"})
        files[f"{shard:05d}_stats.json"] = json.dumps({"count": 1})
    return files


CATS = ["cat"] * 3
SAID = [f'He said "{n}, and so' for n in range(6)]
DETECTED = [["cat"]] * 3 + [["dog"]] * 3
DOWNLOADS: Mapping[str, Download] = {
    "yolo-lists": Download(
        lambda: yolo_of_ultralytics("./"), {"train": 4, "eval": 2}, "labels", DETECTED
    ),
    "yolo-lists-of-another-machine": Download(
        lambda: yolo_of_ultralytics("/home/ann/"), {"train": 4, "eval": 2}, "labels", DETECTED
    ),
    "yolo-lists-without-yaml": Download(
        lambda: yolo_with_lists("./"), {"train": 4, "eval": 2}, "labels", [[0]] * 3 + [[1]] * 3
    ),
    "yolo-darknet": Download(yolo_of_darknet, {"train": 4, "eval": 2}, "labels", DETECTED),
    "open-images": Download(
        open_images,
        {"train": 4, "eval": 2},
        "labels",
        [["/m/1", "/m/2"]] * 6,
        advice=["'train-annotations-bbox.csv' and 'validation-annotations-bbox.csv' alone"],
        settings={"ignore": ["class-descriptions-boxable.csv"]},
    ),
    "kaggle-test-list": Download(
        kaggle_with_test_list, {"train": 6, "test": 2}, "label", [None] * 2 + DETECTED
    ),
    "oxford-pets": Download(
        oxford_pets,
        {"train": 4, "eval": 0},
        "labels",
        [["cat"]] * 2 + [["dog"]] * 2,
        advice=["trimaps/pet_0.png", "images/pet_0.jpg"],
        settings={"ignore": ["annotations/trimaps/*"]},
    ),
    "stanford-dogs": Download(
        stanford_dogs,
        {"train": 4, "eval": 0},
        "labels",
        [["cat"]] * 2 + [["dog"]] * 2,
        advice=["layout='voc' (--layout voc)"],
        settings={"layout": "voc"},
    ),
    "voc-of-two-years": Download(
        voc_of_two_years,
        {"train": 2, "eval": 1},
        "labels",
        [["cat"]] * 3,
        advice=["VOCdevkit/VOC2007'", "ignore=['VOCdevkit/VOC2012/*']"],
        settings={"ignore": ["VOCdevkit/VOC2012/*"]},
    ),
    "ljspeech-txt": Download(
        lambda: transcripts("transcripts.txt"), {"train": 4, "eval": 2}, "text", SAID
    ),
    "ljspeech-list-per-split": Download(
        lambda: transcripts("metadata_train.csv", "metadata_val.csv"),
        {"train": 3, "eval": 3},
        "text",
        SAID,
    ),
    "short-names-of-splits": Download(
        lambda: photos(["trn/cat", "trn/dog", "tst/cat", "tst/dog"]),
        {"train": 6, "test": 6},
        "label",
        [*CATS * 2, *["dog"] * 6],
    ),
    "tables-with-short-names": Download(
        lambda: tables("trn.csv", "vld.csv", "tst.csv"),
        {"train": 2, "eval": 2, "test": 2},
        "label",
        ["n"] * 3 + ["p"] * 3,
    ),
    "splits-in-classes": Download(
        lambda: photos(["cat/train", "cat/test", "dog/train", "dog/test"]),
        {"train": 6, "test": 6},
        "label",
        [*CATS * 2, *["dog"] * 6],
    ),
    "dates-above-classes": Download(
        lambda: photos(["2024-01-01/cat", "2024-01-01/dog", "2024-01-02/cat", "2024-01-02/dog"]),
        {"train": 10, "eval": 2},
        "label",
        [*CATS * 2, *["dog"] * 6],
    ),
    "dates-alone": Download(
        lambda: photos(["2024-01-01", "2024-01-02"]), {"train": 6, "eval": 0}, "label", [None] * 6
    ),
    "unlabelled-folder": Download(
        reviews,
        {"train": 4, "test": 4},
        "label",
        ["neg"] * 4 + ["pos"] * 4,
        advice=["'unsup', whose files have no class"],
        settings={"ignore": ["train/unsup/*"]},
    ),
    "background-noise": Download(
        lambda: {
            f"{folder}/{n}.wav": wav(n + 3 * place)
            for place, folder in enumerate(("yes", "no", "_background_noise_"))
            for n in range(3)
        },
        {"train": 6},
        "label",
        ["no"] * 3 + ["yes"] * 3,
        advice=["'_background_noise_', whose files have no class"],
        settings={"ignore": ["_background_noise_/*"], "splits": {"train": 1}},
    ),
    "rows-within-json": Download(document_with_rows, {"train": 4}, "label", [*"nnpp"]),
    "splits-in-a-column-of-another-name": Download(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in range(4)}
            | {"a.csv": "image,label,subset\n0.jpg,a,train\n1.jpg,b,train\n2.jpg,a,test\n"}
        ),
        {"train": 2, "test": 1},
        "label",
        ["a", "a", "b"],
    ),
    "splits-of-texts-in-a-column-of-another-name": Download(
        lambda: {"a.csv": csv_text("text,phase", "x,train", "y,validation", "z,train")},
        {"train": 2, "eval": 1},
        "text",
        ["x", "y", "z"],
    ),
    "column-of-many-words": Download(
        lambda: {"a.csv": csv_text("text,dataset", *(f"x,d{n}" for n in range(150)))},
        {"train": 150},
        "dataset",
        [f"d{n}" for n in range(150)],
        settings={"splits": {"train": 1}},
    ),
    "lists-of-labels-in-csv": Download(
        lambda: {"train.csv": csv_text("text,label", 'x,"[""a"", ""b""]"', 'y,"[""b""]"')},
        {"train": 2},
        "label",
        [["a", "b"], ["b"]],
    ),
    "clips-in-class-folders": Download(
        lambda: photos([f"{c}/v_{c}_g{n}" for c in ("Jump", "Run") for n in (1, 2)]),
        {"train": 12},
        "label",
        ["Jump"] * 6 + ["Run"] * 6,
        settings={"splits": {"train": 1}},
    ),
    "img2dataset": Download(
        img2dataset,
        {"train": 4, "eval": 2},
        "text",
        [f"c {n}" for n in range(6)],
        advice=["ignore=['*.json'] (--ignore '*.json')"],
        settings={"ignore": ["*.json"]},
    ),
}


@pytest.mark.parametrize("download", DOWNLOADS.values(), ids=DOWNLOADS)
def test_download_is_right_or_refused_with_a_cure(download: Download, tmp_path: Path) -> None:
    source = str(write_files(tmp_path / "in", download.files()))
    if download.advice:
        with pytest.raises(InputError) as refused:
            pipelines.convert(source, str(tmp_path / "refused"))
        missing = [advice for advice in download.advice if advice not in str(refused.value)]
        assert not missing, refused.value
    result = pipelines.convert(source, str(tmp_path / "out"), **download.settings)
    examples = read_examples(result)
    assert counts(examples) == download.splits
    found = (example.get(download.feature) for example in all_of(examples))
    assert sorted(found, key=str) == sorted(download.values, key=str)


def folds(below: str) -> Files:
    return photos([f"fold_{n}{below}" for n in range(3)])


@pytest.mark.parametrize("below", ["", "/cat"])
def test_folds_are_refused_with_the_commands_that_name_splits(below: str, tmp_path: Path) -> None:
    import re
    import subprocess

    files = folds(below) | (photos([f"fold_{n}/dog" for n in range(3)]) if below else {})
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match="the folds 'fold_0', 'fold_1', 'fold_2'") as refused:
        pipelines.convert(str(source), str(tmp_path / "out"))
    commands = re.search(r"mv .* && mkdir .*?(?=\. If )", str(refused.value))
    assert commands is not None
    subprocess.run(commands.group(), shell=True, check=True)
    examples = read_examples(pipelines.convert(str(source), str(tmp_path / "out")))
    assert counts(examples) == ({"train": 12, "eval": 6} if below else {"train": 6, "eval": 3})
    assert {e.get("label") for e in all_of(examples)} == ({"cat", "dog"} if below else {None})


@pytest.mark.parametrize("strange", ["notes.yaml", "boxes.json", "yes/0.xml"])
def test_annotations_next_to_lists_of_splits_end_the_run(strange: str, tmp_path: Path) -> None:
    files = photos(["yes", "no"]) | {"test_list.txt": "no/10.jpg\n", strange: "a: 1\n"}
    with pytest.raises(InputError, match=strange):
        pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))


def test_archive_next_to_its_list_is_refused_with_unzip(tmp_path: Path) -> None:
    import io
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for n in range(4):
            archive.writestr(f"images/{n}.jpg", jpeg(n))
    rows = (f"{n}.jpg,{CATS_AND_DOGS[n % 2]}" for n in range(4))
    files: Files = {"labels.csv": csv_text("filename,label", *rows)}
    source = write_files(tmp_path / "in", files | {"images.zip": stream.getvalue()})
    with pytest.raises(InputError, match=r"unzip \S+images\.zip -d \S+/images && rm "):
        pipelines.convert(str(source), str(tmp_path / "out"))
    with zipfile.ZipFile(source / "images.zip") as archive:
        archive.extractall(source / "images")
    (source / "images.zip").unlink()
    examples = all_of(read_examples(pipelines.convert(str(source), str(tmp_path / "out"))))
    assert sorted(e["label"] for e in examples) == ["cat", "cat", "dog", "dog"]


def test_images_that_a_list_does_not_name_are_reported(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    files = photos(["train", "test"]) | {"train.csv": "image,label\n00.jpg,a\n01.jpg,b\n02.jpg,a\n"}
    pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))
    message = "3 images in 'test' are not read: layout 'csv' found nothing that names them"
    assert message in our_messages()


def test_advice_for_files_in_a_wrapper_matches_them(tmp_path: Path) -> None:
    files: Files = {"set/JPEGImages/1.jpg": jpeg(1), "set/JPEGImages/2.jpg": jpeg(2)}
    files |= {
        f"set/Annotations/{n}.xml": voc_document(f"{n}.jpg", SIZE, {"cat": (1, 2, 10, 12)})
        for n in (1, 2)
    }
    files |= {f"set/notes/{n}.json": "{}" for n in range(9)}
    source = str(write_files(tmp_path / "in", files))
    with pytest.raises(InputError, match=r"ignore=\['set/notes/\*\.json'\]"):
        pipelines.convert(source, str(tmp_path / "out"))
    result = pipelines.convert(source, str(tmp_path / "out"), ignore=["set/notes/*.json"])
    assert len(all_of(read_examples(result))) == 2


@pytest.mark.parametrize(
    ("name", "line", "warning"),
    [
        ("train.txt", "ham\tHello, you\n", "'train.txt': each line has tabs."),
        ("SMSSpamCollection", "ham\tHello\n", "'SMSSpamCollection': each line has tabs."),
        ("train.txt", "One line of text.\n", None),
    ],
)
def test_texts_that_look_like_tables_are_reported(
    name: str,
    line: str,
    warning: str | None,
    tmp_path: Path,
    our_messages: Callable[[], list[str]],
) -> None:
    source = str(write_files(tmp_path / "in", {name: line * 9}))
    pipelines.convert(source, str(tmp_path / "out"))
    found = [message for message in our_messages() if message.startswith(f"{name!r}: each line")]
    assert len(found) == (warning is not None)
    assert all(message.startswith(str(warning)) for message in found)


def test_tab_of_a_message_is_a_delimiter_on_the_command_line(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from pipelines.cli.app import app

    files: Files = {"data.csv": csv_text("text\tlabel", "Nice, really\tpos", "Sad, really\tneg")}
    source, out = str(write_files(tmp_path / "in", files)), str(tmp_path / "out")
    refused = CliRunner().invoke(app, ["convert", source, out])
    assert r"(--delimiter '\t')" in refused.output
    cured = ["convert", source, out, "--delimiter", r"\t", "--splits", "train=1"]
    assert CliRunner().invoke(app, cured).exit_code == 0


def test_image_missing_from_a_yolo_list_is_rejected(tmp_path: Path) -> None:
    files = yolo_of_ultralytics("./")
    del files["images/im3.jpg"], files["labels/im3.txt"]
    source = str(write_files(tmp_path / "in", files))
    with pytest.raises(InputError, match=r"images/im3.jpg: FILE_NOT_FOUND \(listed in train.txt"):
        pipelines.convert(source, str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (photos(["Cat", "cat", "dog"]), "label: 'Cat' and 'cat' are two classes"),
        (
            {"a.csv": csv_text("text,is_valid", *(f"t {n},{n % 2}" for n in range(9)))},
            "column 'is_valid' is read as a feature, not as splits",
        ),
        (
            {"a.csv": csv_text("text,Usage", "a,Training", "b,PublicTest", "c,PrivateTest")},
            "column 'Usage' is read as a feature, not as splits: 'PrivateTest' names no split",
        ),
        (
            {"a.csv": csv_text("text,fold", *(f"t {n},{n % 4 + 1}" for n in range(9)))},
            "column 'fold' is read as a feature, not as splits. If its numbers are splits or folds",
        ),
        (
            {
                "a.csv": csv_text("image,partition", *(f"{n}.jpg,{n % 3}" for n in range(6))),
                **{f"{n}.jpg": jpeg(n) for n in range(6)},
            },
            "column 'partition' is read as a feature, not as splits. If its numbers are splits",
        ),
        *(
            (
                {"a.csv": csv_text("text,label", "a,pos", "b,neg", f"c,{word}", "d,pos", "e,neg")},
                f"label: {word!r} is a class. If it means that the label is missing",
            )
            for word in ("NaN", "None", "null", "?")
        ),
        (photos(["Actor_01", "Actor_02"]), "the folders 'Actor_01', 'Actor_02' become classes."),
        (photos(["video 1", "video 2"]), "the folders 'video 1', 'video 2' become classes."),
        (
            {"a.csv": csv_text("url,label", *(f"https://a.b/{n}.jpg?c=1,x" for n in range(3)))},
            "column 'url' has web addresses of files, which are not downloaded",
        ),
        (photos(["HR", "LR"]), "the folders 'HR', 'LR' become classes. If their files are pairs"),
    ],
)
def test_doubtful_classes_and_splits_are_reported(
    files: Files, message: str, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))
    assert any(found.startswith(message) for found in our_messages())


@pytest.mark.parametrize(
    "folders",
    [
        ["2023", "2024"],
        ["2023-01", "2023-02"],
        ["2023_01_31", "2023_02_01"],
        ["2023/01", "2023/02"],
        ["2023/1", "2023/12", "2024/3"],
        ["2023/01/30", "2023/01/31", "2023/02/01"],
        ["photos/2023/01", "photos/2023/02"],
        ["train/2023-01", "train/2023-02", "test/2023-03", "test/2023-04"],
    ],
)
def test_folders_of_dates_are_no_classes(
    folders: list[str], tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    source = str(write_files(tmp_path / "in", photos(folders)))
    result = pipelines.convert(source, str(tmp_path / "out"))
    assert not any("label" in example for example in all_of(read_examples(result)))
    assert any("as parts of one dataset, not as classes" in found for found in our_messages())


def test_groups_of_a_table_replace_classes_of_folders(tmp_path: Path) -> None:
    files = photos([f"patient_{number}" for number in range(6)])
    rows = (f"{name},{number % 2},{name.partition('/')[0]}" for number, name in enumerate(files))
    files = {**files, "labels.csv": csv_text("filename,label,source", *rows)}
    source = str(write_files(tmp_path / "in", files))
    settings = {"csv_path": "labels.csv", "group_by": "source", "splits": {"train": 1, "eval": 1}}
    result = pipelines.convert(source, str(tmp_path / "out"), **settings)
    by_split = read_examples(result)
    groups = [{example["source"] for example in by_split[split]} for split in ("train", "eval")]
    assert groups[0].isdisjoint(groups[1])
    assert {example["label"] for example in all_of(read_examples(result))} == {0, 1}


@pytest.mark.parametrize(
    ("names", "classes"),
    [(["train_cat", "train_dog", "val_cat"], {"cat", "dog"}), (["train", "val"], None)],
)
def test_labels_of_names_with_splits_are_suggested(
    names: list[str],
    classes: set[str] | None,
    tmp_path: Path,
    our_messages: Callable[[], list[str]],
) -> None:
    image = next(iter(photos(["a"]).values()))
    files: Files = {f"{name}_{number}.jpg": image for name in names for number in range(2)}
    source = str(write_files(tmp_path / "in", files))
    pipelines.convert(source, str(tmp_path / "out"))
    (*_, pattern) = re.findall(r"name_pattern='(.*?)' \(", " ".join(our_messages())) or [None]
    assert (pattern is None) == (classes is None)
    if pattern is not None:
        result = pipelines.convert(source, str(tmp_path / "named"), name_pattern=pattern)
        assert {example["label"] for example in all_of(read_examples(result))} == classes


def test_labels_in_names_of_train_alone_are_suggested(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    files: Files = {f"train/{name}.{n}.jpg": jpeg(n) for name in ("cat", "dog") for n in range(2)}
    files = {**files, **{f"test1/{n}.jpg": jpeg(n + 9) for n in range(3)}}
    source = str(write_files(tmp_path / "in", files))
    pipelines.convert(source, str(tmp_path / "out"))
    advice = (
        "name_pattern='(?P<label>.+?)[._ -]+[0-9]+', ignore=['test1/*'] "
        "(--name-pattern '(?P<label>.+?)[._ -]+[0-9]+' --ignore 'test1/*')"
    )
    assert any(advice in message for message in our_messages())
    result = pipelines.convert(
        source,
        str(tmp_path / "named"),
        name_pattern="(?P<label>.+?)[._ -]+[0-9]+",
        ignore=["test1/*"],
    )
    examples = all_of(read_examples(result))
    assert sorted(example["label"] for example in examples) == ["cat", "cat", "dog", "dog"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_files_in_base64_are_refused_with_a_program(ending: str, tmp_path: Path) -> None:
    images = [base64.b64encode(data).decode() for data in photos(["a", "b"]).values()]
    rows = [{"image": image, "label": "ab"[n % 2]} for n, image in enumerate(images)]
    lines = csv_text("image,label", *(",".join(row.values()) for row in rows))
    text = lines if ending == "csv" else "".join(json.dumps(row) + "\n" for row in rows)
    folder = write_files(tmp_path / "in", {f"data.{ending}": text})
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(folder), str(tmp_path / "out"))
    assert len(str(refused.value)) < 600
    program = re.search("import base64, pandas.*", str(refused.value))
    assert program is not None
    run_python(program.group(), cwd=folder).check_returncode()
    (folder / f"data.{ending}").unlink()
    result = pipelines.convert(str(folder), str(tmp_path / "out"))
    assert len(all_of(read_examples(result))) == len(rows)


def test_spreadsheet_is_refused_with_a_way_to_read_it(tmp_path: Path) -> None:
    source = str(write_files(tmp_path / "in", {"data.xlsx": b"PK\x03\x04"}))
    with pytest.raises(InputError, match="Save their rows as CSV, JSON lines or Parquet"):
        pipelines.convert(source, str(tmp_path / "out"))


def test_classes_that_differ_in_spaces_are_refused(tmp_path: Path) -> None:
    source = str(write_files(tmp_path / "in", photos(["cat", "cat ", "dog"])))
    with pytest.raises(InputError, match="'cat' and 'cat ', which look alike"):
        pipelines.convert(source, str(tmp_path / "out"))


def test_images_of_a_packed_folder_keep_their_classes(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.tar": archive(photos(["cat", "dog"]))})
    with pytest.raises(InputError, match="unpack the archive") as refused:
        pipelines.convert(str(source), str(tmp_path / "out"))
    commands = re.search(r"mkdir .*?(?=\. If )", str(refused.value))
    assert commands is not None
    subprocess.run(commands.group(), shell=True, check=True)
    result = pipelines.convert(str(source / "a"), str(tmp_path / "out"))
    assert {e["label"] for e in all_of(read_examples(result))} == {"cat", "dog"}


ROWS_OF_JSON = [{"text": "x"}, {"text": "y"}]


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        ({"a.json": json.dumps({"train": ROWS_OF_JSON, "test": ROWS_OF_JSON})}, "jq -c '.train"),
        ({"a.json": json.dumps({"columns": ["a"], "index": [0], "data": [[1]]})}, "orient='rec"),
        ({"a.json": json.dumps({"a": 1}, indent=1) * 2}, "jq -c . old.json > new.jsonl"),
        ({"train.csv": 'text,label\n"a \\"b\\" c",1\n'}, "escapechar='\\\\'"),
        ({"a.csv": "# made by me\na,b\n1,2\n"}, "grep -v '^#' old.csv > new.csv"),
        ({"a.csv": "File.Name;Roi.X\nx;1\ny;2\n"}, "delimiter=';' (--delimiter ';')"),
    ],
)
def test_tables_in_other_forms_are_refused_with_a_command(
    files: Files, advice: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))
    assert advice in str(refused.value)


UNLIKE: Mapping[str, tuple[Files, bool]] = {
    "labels apart": (
        {
            "train.csv": csv_text("id,comment,toxic,obscene", "1,good,0,0"),
            "test.csv": csv_text("id,comment", "2,fine"),
            "test_labels.csv": csv_text("id,toxic,obscene", "2,1,0"),
        },
        True,
    ),
    "two tables": (
        {
            "review.jsonl": b'{"review_id": "1", "text": "good", "stars": 4}\n',
            "business.jsonl": b'{"business_id": "2", "name": "a", "city": "b"}\n',
        },
        True,
    ),
    "a column more": (
        {"2023.csv": csv_text("text,label", "a,b"), "2024.csv": csv_text("text,label,x", "c,d,1")},
        False,
    ),
    "a test without labels": (
        {"train.csv": csv_text("text,label", "a,b"), "test.csv": csv_text("text,key", "c,1")},
        False,
    ),
}


@pytest.mark.parametrize(("files", "is_reported"), UNLIKE.values(), ids=UNLIKE)
def test_tables_with_different_columns_are_reported(
    files: Files, is_reported: bool, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))
    messages = [message for message in our_messages() if "are read as one table" in message]
    assert len(messages) == is_reported


TABLES = {
    "a part of the rows": (["train.csv", "train_small.csv", "test.csv"], True),
    "two names of one split": (["train.csv", "val.csv", "dev.csv"], True),
    "numbers": (["train_1.csv", "train_2.csv", "train-03.csv", "test.csv"], False),
    "parts": (["train_part1.csv", "train_part2.csv", "test.csv"], False),
    "the Hub": (
        [f"train-0000{n}-of-00002-{n}ca4b0d7e1c6a0f5.csv" for n in range(2)] + ["test-0.csv"],
        False,
    ),
}


@pytest.mark.parametrize(("names", "is_reported"), TABLES.values(), ids=TABLES)
def test_tables_that_join_a_split_are_reported(
    names: list[str], is_reported: bool, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    files: Files = {name: csv_text("text,label", f"{name},b", f"{name},c") for name in names}
    pipelines.convert(str(write_files(tmp_path / "in", files)), str(tmp_path / "out"))
    messages = [message for message in our_messages() if "all become the split" in message]
    assert len(messages) == is_reported


KEYED: Mapping[str, tuple[Any, int | None, str]] = {
    "texts": ({f"film number {n} was so good": "np"[n % 2] for n in range(6)}, None, "label"),
    "texts on lines": ({f"film number {n} was so good": n % 2 for n in range(6)}, 1, "label"),
    "numbers": ({str(n): f"film {n}" for n in range(6)}, None, "label"),
    "columns": ({"text": [f"film {n}" for n in range(6)], "label": [0, 1] * 3}, None, "label"),
    "columns on lines": (
        {"text": [f"film {n}" for n in range(6)], "stars": [*range(6)]},
        2,
        "stars",
    ),
}


@pytest.mark.parametrize(("value", "indent", "column"), KEYED.values(), ids=KEYED)
def test_json_of_values_by_key_is_refused_with_a_program(
    value: Any, indent: int | None, column: str, tmp_path: Path
) -> None:
    old = write_files(tmp_path / "in", {"train.json": json.dumps(value, indent=indent)})
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(old), str(tmp_path / "no"))
    program = re.search("python3 -c '([^']+)' < old.json > new.jsonl", str(refused.value))
    assert program is not None, refused.value
    rows = subprocess.run(
        [sys.executable, "-c", program[1]],
        input=(old / "train.json").read_bytes(),
        capture_output=True,
        check=True,
    ).stdout
    new = str(write_files(tmp_path / "new", {"train.jsonl": rows}))
    examples = all_of(read_examples(pipelines.convert(new, str(tmp_path / "out"))))
    assert len(examples) == 6
    assert all({"text", column} <= example.keys() for example in examples)


def test_only_row_of_a_json_file_is_read(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 1, "a long name": 2}, {"text": "a", "labels": [1, 2]}]
    for number, row in enumerate(rows):
        source = write_files(tmp_path / f"in-{number}", {"train.json": json.dumps(row)})
        result = pipelines.convert(str(source), str(tmp_path / f"out-{number}"))
        assert len(all_of(read_examples(result))) == 1
