"""Advice in messages works: each is followed literally, in Python, on the command line, in TFX.

A cure is a pair in the form `columns={'a': 'text'} (--column a=text)`. The test provokes the
message, finds the pair in it, converts again with those settings, and expects success.
"""

import ast
import dataclasses
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pipelines
from components.inputs.advice import as_flags
from pipelines.cli.app import COMMANDS, app
from tests.cases.examples import counts, read_examples
from tests.make import REPOSITORY, archive, encode, jpeg, photo, wav, write_files
from trainer_utils import ConfigError, DatasetError
from trainer_utils.dataset.location import newest_dataset

Files = Mapping[str, bytes | str]


@dataclasses.dataclass(frozen=True)
class Cure:
    """An input, settings that it is refused with, and the advice that must then work."""

    files: Callable[[], Files]
    advice: str
    written: int
    kind: str = "image"
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    below: str = ""
    # Files that the advice says to write first
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the advice, as Python reads them."""
        python = self.advice.rpartition(" (--")[0]
        call = ast.parse(f"f({python})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}

    @property
    def flags(self) -> list[str]:
        """The flags of the advice, as a shell reads them."""
        return shlex.split(self.advice[len(self.advice.rpartition(" (--")[0]) + 2 : -1])


def table(name: str, *rows: str) -> Callable[[], Files]:
    return lambda: {name: "".join(f"{row}\n" for row in rows)}


def photos(count: int = 4, **more: bytes | str) -> Files:
    return {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(count)} | more


def listed(*rows: str) -> Files:
    """Return photos 1.jpg and 2.jpg, and a list of them."""
    return {f"{n}.jpg": jpeg(n) for n in (1, 2)} | {"list.csv": "".join(f"{r}\n" for r in rows)}


FOLDERS = [*(("train", c) for c in "abab"), ("others", "c")]
EQUAL_NAMES = [(c, w) for c in "abc" for w in ("sun", "moon", "sea", "sky")]
MASKS = (("colour", "RGB"), ("grey", "L"))


def animation() -> Files:
    from PIL import Image

    frames = [Image.new("RGB", (8, 8), (n, 0, 0)) for n in range(3)]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    return photos() | {"a/film.gif": data}


def texts(count: int = 8) -> list[str]:
    return [f"text {n} of several words" for n in range(count)]


def in_folders(*folders: str) -> Files:
    return {f"{f}/{n}_{k}.jpg": jpeg(9 * n + k) for n, f in enumerate(folders) for k in range(2)}


def labelme(name: str) -> str:
    """Return the annotation of an image as LabelMe writes it."""
    shape = {"label": "cat", "points": [[1, 1], [5, 5]], "shape_type": "rectangle"}
    return json.dumps({"version": "5.0", "shapes": [shape], "imagePath": name})


def boxes(*names: str) -> Mapping[str, str]:
    """Return a list with a box in each image."""
    rows = "".join(f"{name},cat,1,1,5,5\n" for name in names)
    return {"labels.csv": f"filename,label,xmin,ymin,xmax,ymax\n{rows}"}


def durations() -> Files:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    lengths = pa.array(range(8), pa.duration("ms"))
    pq.write_table(pa.table({"text": texts(), "length": lengths}), stream)
    return {"a.parquet": stream.getvalue()}


def named_twice(*lists: str) -> Files:
    """Return two lists of two images each. One image is in both lists."""
    rows = ("1.jpg,a\n2.jpg,b\n", "2.jpg,b\n3.jpg,a\n")
    files: Files = {f"{n}.jpg": jpeg(n) for n in (1, 2, 3)}
    return {**files, **{n: f"image,label\n{r}" for n, r in zip(lists, rows, strict=True)}}


CURES: Mapping[str, Cure] = {
    "header without names": Cure(
        table("a.csv", *(f"{text},{n}" for n, text in enumerate(texts()))),
        "column_names=['text', 'label'] (--columns text,label)",
        written=8,
        kind="text",
        given={"header": False},
    ),
    "copies without a column of texts": Cure(
        table("a.csv", "a,b", *(f"{n},{n + 1}" for n in range(8))),
        "columns={'a': 'text'} (--column a=text)",
        written=8,
        kind="text",
        given={"group_by": "near_duplicates"},
    ),
    "rejects within bounds": Cure(
        lambda: photos(9) | {"a/empty.jpg": b""},
        "max_reject_fraction=0.1 (--max-reject-fraction 0.1)",
        written=9,
    ),
    "no record to train": Cure(
        lambda: {"1.jpg": jpeg(1)},
        "splits={'train': 1} (--splits train=1)",
        written=1,
        given={"seed": 3},
    ),
    "animation": Cure(
        animation,
        "frames='first' (--frames first)",
        written=5,
        given={"frames": "reject"},
    ),
    "encoding": Cure(
        lambda: (
            {"a.csv": "text,label\n" + "".join(f"schön {n},{n}\n" for n in range(8))}
            | {"b.csv": "text,label\nschön,1\n".encode("latin-1")}
        ),
        "encoding='latin-1' (--encoding latin-1)",
        written=9,
        kind="text",
    ),
    "channels": Cure(
        lambda: {f"{n}.wav": wav(n, channels=1 + 2 * (n == 0)) for n in range(4)},
        "channels=1 (--channels 1)",
        written=4,
        kind="audio",
        given={"channels": 2},
    ),
    "pixels": Cure(
        lambda: photos(),
        "max_pixels=400000000 (--max-pixels 400000000)",
        written=4,
        given={"max_pixels": 100},
    ),
    "delimiter": Cure(
        table("a.csv", "text;label", *(f"{text};{n}" for n, text in enumerate(texts()))),
        "delimiter=';' (--delimiter ';')",
        written=8,
        kind="text",
    ),
    "delimiter that the file itself names": Cure(
        table("a.csv", "sep=;", "text;label", *(f"{text};{n}" for n, text in enumerate(texts()))),
        "delimiter=';' (--delimiter ';')",
        written=8,
        kind="text",
    ),
    "first row without a doubt no header": Cure(
        table("a.csv", *(f"the film was good,{word}" for word in ("pos", "neg") * 4)),
        "column_names=['text', 'label'] (--columns text,label)",
        written=8,
        kind="text",
    ),
    "first row that is a header": Cure(
        table("a.csv", *(f"the film was good,{word}" for word in ("pos", "neg") * 4)),
        "header=True (--header)",
        written=7,
        kind="text",
    ),
    "quotes that are characters": Cure(
        table("a.tsv", "text\tlabel", *(f'"Yes?" {text}\t{n}' for n, text in enumerate(texts()))),
        "quoting='none' (--quoting none)",
        written=8,
        kind="text",
    ),
    "objects of any form": Cure(
        lambda: {"a.jsonl": '{"text": "a", "x": [{"y": 1}]}\n' * 8},
        "columns={'x': 'json'} (--column x=json)",
        written=8,
        kind="text",
    ),
    "objects left out": Cure(
        lambda: {"a.jsonl": '{"text": "a", "x": [{"y": 1}]}\n' * 8},
        "columns={'x': 'ignore'} (--column x=ignore)",
        written=8,
        kind="text",
    ),
    "word among numbers": Cure(
        table("a.csv", "text,n", *(f"{text},{n}" for n, text in enumerate(texts(7))), "more,many"),
        "columns={'n': 'string'} (--column n=string)",
        written=8,
        kind="text",
    ),
    "utf-16": Cure(
        lambda: {
            "a.csv": "".join(f"{row}\n" for row in ("text,label", "a,1", "b,2")).encode("utf-16")
        },
        "encoding='utf-16' (--encoding utf-16)",
        written=2,
        kind="text",
    ),
    "tables of two kinds": Cure(
        lambda: table("a.csv", "text", *texts())() | {"b.jsonl": '{"text": "a"}\n' * 3},
        "layout='csv' (--layout csv)",
        written=8,
        kind="text",
    ),
    "columns of files with names of their own": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in range(4)}
            | {"list.csv": "ref,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(4))}
        ),
        "columns={'ref': 'image'} (--column ref=image)",
        written=4,
        given={"layout": "csv", "kind": "image"},
    ),
    "rows of one file in one example": Cure(
        lambda: listed("filename,label", "1.jpg,a", "1.jpg,b", "2.jpg,a"),
        "rows='grouped' (--rows grouped)",
        written=2,
    ),
    "rows of one file in examples of their own": Cure(
        lambda: listed("filename,label", "1.jpg,a", "1.jpg,b", "2.jpg,a"),
        "rows='each' (--rows each)",
        written=3,
    ),
    "labels in one cell": Cure(
        lambda: listed("filename,label", "1.jpg,a|b", "2.jpg,a"),
        "label_separator='|' (--label-separator '|')",
        written=2,
    ),
    "label with a separator in it": Cure(
        lambda: listed("filename,label", "1.jpg,a|b", "2.jpg,a"),
        "columns={'label': 'label'} (--column label=label)",
        written=2,
    ),
    "boxes of two possible forms": Cure(
        lambda: listed("filename,label,bbox", '1.jpg,a,"[2, 2, 4, 4]"', '2.jpg,b,"[2, 2, 5, 5]"'),
        "box_format='xyxy' (--box-format xyxy)",
        written=2,
    ),
    "column that holds no boxes": Cure(
        lambda: listed("filename,label,bbox", "1.jpg,a,none", "2.jpg,b,some"),
        "columns={'bbox': 'string'} (--column bbox=string)",
        written=2,
    ),
    "files with other endings": Cure(
        lambda: listed("filename,label", "1.png,a", "2.png,b"),
        "find_files='stem' (--find-files stem)",
        written=2,
    ),
    "list of clips in a folder": Cure(
        lambda: (
            {f"audio/{n}.wav": wav(n) for n in range(4)}
            | {"meta/a.csv": "filename,label\n0.wav,a\n1.wav,b\n2.wav,a\n3.wav,b\n"}
        ),
        "csv_path='meta/a.csv' (--csv-path meta/a.csv)",
        kind="audio",
        written=4,
    ),
    "list in the folder of each split": Cure(
        lambda: (
            {f"{split}/{n}.jpg": jpeg(n) for split in ("train", "valid") for n in (1, 2)}
            | dict.fromkeys(("train/a.csv", "valid/a.csv"), "filename,red\n1.jpg,1\n2.jpg,0\n")
        ),
        "csv_path='{split}/a.csv' (--csv-path '{split}/a.csv')",
        written=4,
    ),
    "encoding of a list": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in (1, 2)}
            | {"list.csv": "filename,note\n1.jpg,schön\n2.jpg,gut\n".encode("latin-1")}
        ),
        "list_encoding='latin-1' (--list-encoding latin-1)",
        written=2,
    ),
    "list in utf-16": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in (1, 2)}
            | {"list.csv": "filename,note\n1.jpg,schön\n2.jpg,gut\n".encode("utf-16")}
        ),
        "list_encoding='utf-16' (--list-encoding utf-16)",
        written=2,
    ),
    "list of clips in latin-1": Cure(
        lambda: (
            {f"{n}.wav": wav(n) for n in (1, 2)}
            | {"list.csv": "filename,note\n1.wav,schön\n2.wav,gut\n".encode("latin-1")}
        ),
        "encoding='latin-1' (--encoding latin-1)",
        written=2,
        kind="audio",
    ),
    "stray table next to photos": Cure(
        lambda: photos() | {"a/notes.xml": "<a/>"},
        "ignore=['*.xml'] (--ignore '*.xml')",
        written=4,
    ),
    "boxes of LabelMe": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in range(2)}
            | {f"{n}.json": labelme(f"{n}.jpg") for n in range(2)}
        ),
        "csv_path='labels.csv', ignore=['*.json'] (--csv-path labels.csv --ignore '*.json')",
        written=2,
        more=boxes("0.jpg", "1.jpg"),
    ),
    "boxes of CVAT": Cure(
        lambda: (
            {f"images/{n}.jpg": jpeg(n) for n in range(2)}
            | {
                "annotations.xml": "<annotations><image name='0.jpg'>"
                "<box label='cat' xtl='1' ytl='1' xbr='5' ybr='5'/></image></annotations>"
            }
        ),
        "csv_path='labels.csv', ignore=['*.xml'] (--csv-path labels.csv --ignore '*.xml')",
        written=2,
        more=boxes("images/0.jpg", "images/1.jpg"),
    ),
    "boxes of VisDrone": Cure(
        lambda: (
            {f"images/{n}.jpg": jpeg(n) for n in range(2)}
            | {f"annotations/{n}.txt": "1,1,4,4,1,4,0,0\n" for n in range(2)}
        ),
        "csv_path='labels.csv', ignore=['*.txt'] (--csv-path labels.csv --ignore '*.txt')",
        written=2,
        more=boxes("images/0.jpg", "images/1.jpg"),
    ),
    "splits of Food-101": Cure(
        lambda: (
            {f"images/{c}/{n}.jpg": jpeg(n) for n, c in enumerate("abab")}
            | {"meta/train.txt": "a/0\nb/1\n", "meta/test.txt": "a/2\nb/3\n"}
        ),
        "csv_path='labels.csv', ignore=['*.txt'] (--csv-path labels.csv --ignore '*.txt')",
        written=4,
        more={
            "labels.csv": "filename,label,split\n"
            "images/a/0.jpg,a,train\nimages/b/1.jpg,b,train\n"
            "images/a/2.jpg,a,test\nimages/b/3.jpg,b,test\n"
        },
    ),
    "transcripts next to clips": Cure(
        lambda: {f"{n}.wav": wav(n) for n in range(4)} | {f"{n}.lab": "a b" for n in range(4)},
        "csv_path='labels.csv', ignore=['*.lab'] (--csv-path labels.csv --ignore '*.lab')",
        written=4,
        kind="audio",
        more={"labels.csv": "filename,text\n" + "".join(f"{n}.wav,a b\n" for n in range(4))},
    ),
    "durations": Cure(
        durations,
        "columns={'length': 'json'} (--column length=json)",
        written=8,
        kind="text",
    ),
    "plain list next to folders": Cure(
        lambda: photos() | {"labels.lst": "a/0.jpg b\n"},
        "ignore=['labels.lst'] (--ignore labels.lst)",
        written=4,
    ),
    "folders of which some are splits": Cure(
        lambda: {f"{f}/{c}/{n}.jpg": jpeg(n) for n, (f, c) in enumerate(FOLDERS)},
        "ignore=['others/*'] (--ignore 'others/*')",
        written=4,
    ),
    "images and masks": Cure(
        lambda: {f"{f}/{n}.png": photo(n, "PNG", m) for f, m in MASKS for n in range(4)},
        "layout='segmentation', image_dir='colour', label_dir='grey' "
        "(--layout segmentation --image-dir colour --label-dir grey)",
        written=4,
    ),
    "two lists": Cure(
        lambda: listed("filename,label", "1.jpg,a", "2.jpg,b") | {"more.csv": "filename\n2.jpg\n"},
        "ignore=['more.csv'] (--ignore more.csv)",
        written=2,
    ),
    "tables next to other files": Cure(
        lambda: table("a.csv", "text", *texts())() | {"b.pdf": b"%PDF-1.4\n"},
        "ignore=['*.pdf'] (--ignore '*.pdf')",
        written=8,
        kind="text",
    ),
    "words like splits in some names": Cure(
        lambda: {f"{'train_' if n < 2 else ''}{n}.jpg": jpeg(n) for n in range(4)},
        "layout='folder' (--layout folder)",
        written=4,
    ),
    "wrapper of class folders with equal names": Cure(
        lambda: {f"all/{c}/{w}.jpg": jpeg(n) for n, (c, w) in enumerate(EQUAL_NAMES)},
        "layout='folder' (--layout folder)",
        written=12,
    ),
    "list of few of the images": Cure(
        lambda: (
            {f"train/{n}.jpg": jpeg(n) for n in range(10, 16)}
            | {f"test1/{n}.jpg": jpeg(n) for n in (1, 2)}
            | {"sample.csv": "id,label\n1,0\n2,0\n"}
        ),
        "ignore=['sample.csv'] (--ignore sample.csv)",
        written=8,
    ),
    "masks in the folder of a split": Cure(
        lambda: (
            {f"train/{n}.jpg": jpeg(n) for n in range(4)}
            | {f"train_masks/other{n}.png": photo(n, "PNG", "L") for n in range(4)}
        ),
        "ignore=['train_masks/*'] (--ignore 'train_masks/*')",
        written=4,
    ),
    "photos next to texts that describe them": Cure(
        lambda: photos() | {f"a/{n}.txt": f"text {n}" for n in range(9)},
        "kind='image', ignore=['*.txt'] (--kind image --ignore '*.txt')",
        written=4,
    ),
    "lists by split next to another": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in range(4)}
            | {"Train.csv": "path,label\n0.jpg,a\n1.jpg,b\n", "Test.csv": "path,label\n2.jpg,a\n"}
            | {"Meta.csv": "path,label\n3.jpg,a\n"}
        ),
        "ignore=['Meta.csv'] (--ignore Meta.csv)",
        written=3,
    ),
    "list in a folder of its own": Cure(
        lambda: (
            {f"images/{n}.jpg": jpeg(n) for n in range(4)}
            | {
                "meta/list.csv": "filename,label\n"
                + "".join(f"{n}.jpg,{n % 2}\n" for n in range(4))
            }
        ),
        "csv_path='meta/list.csv' (--csv-path meta/list.csv)",
        written=4,
    ),
    "column that names no splits": Cure(
        lambda: (
            {f"{n}.jpg": jpeg(n) for n in range(4)}
            | {"list.csv": "filename,split\n" + "".join(f"{n}.jpg,fold{n}\n" for n in range(4))}
        ),
        "columns={'split': 'string'} (--column split=string)",
        written=4,
    ),
    "folders in class folders, which are the classes": Cure(
        lambda: in_folders("a/abbey", "a/airport", "b/bakery", "b/beach"),
        "name_pattern='(?P<label>.+)/' (--name-pattern '(?P<label>.+)/')",
        written=8,
    ),
    "folders in class folders, which are parts": Cure(
        lambda: in_folders("cat/rome", "cat/oslo", "dog/bern", "dog/nice"),
        "layout='folder' (--layout folder)",
        written=8,
    ),
    "folders in class folders below splits": Cure(
        lambda: in_folders("train/a/abbey", "train/a/arch", "train/b/x", "val/a/abbey", "val/b/x"),
        "name_pattern='(?P<split>[^/]+)/(?P<label>.+)/' "
        "(--name-pattern '(?P<split>[^/]+)/(?P<label>.+)/')",
        written=10,
    ),
    "domains that contain the same classes": Cure(
        lambda: in_folders("art/bag", "art/cup", "real/bag", "real/cup"),
        "name_pattern='[^/]+/(?P<label>[^/]+)/' (--name-pattern '[^/]+/(?P<label>[^/]+)/')",
        written=8,
    ),
    "file in the lists of two splits": Cure(
        lambda: named_twice("train.csv", "val.csv"), "rows='each' (--rows each)", written=4
    ),
    "file in two lists of one split": Cure(
        lambda: named_twice("train_a.csv", "train_b.csv"),
        "ignore=['train_b.csv'] (--ignore train_b.csv)",
        written=2,
    ),
    "masks next to images": Cure(
        lambda: (
            {f"{'ab'[n % 2]}/{n}.png": photo(n, "PNG") for n in range(4)}
            | {f"{'ab'[n % 2]}/{n}_mask.png": photo(n, "PNG", "L") for n in range(4)}
        ),
        "ignore=['*_mask.png'] (--ignore '*_mask.png')",
        written=4,
    ),
    "images named like masks": Cure(
        lambda: photos() | {f"{'ab'[n % 2]}/{n}_label_1.jpg": jpeg(9 + n) for n in range(4)},
        "layout='folder' (--layout folder)",
        written=8,
    ),
    "labels with commas between": Cure(
        lambda: listed("filename,label", '1.jpg,"a,b"', "2.jpg,a", "3.jpg,b") | {"3.jpg": jpeg(3)},
        "label_separator=',' (--label-separator ,)",
        written=3,
    ),
    "labels with spaces between": Cure(
        lambda: listed("filename,label", "1.jpg,a b", "2.jpg,a", "3.jpg,b") | {"3.jpg": jpeg(3)},
        "label_separator=' ' (--label-separator ' ')",
        written=3,
    ),
    "labels as lists of Python": Cure(
        lambda: listed("filename,label", "1.jpg,\"['a', 'b']\"", "2.jpg,['a']"),
        "columns={'label': 'string'} (--column label=string)",
        written=2,
    ),
    "several labels of texts": Cure(
        table("a.csv", "text,label", "x,a|b", "y,a", "z,b"),
        "columns={'label': 'label'} (--column label=label)",
        written=3,
        kind="text",
        given={"splits": {"train": 1}},
    ),
    "archive of folders": Cure(
        lambda: {"a.tar": archive({f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(4)})},
        "layout='tar' (--layout tar)",
        written=4,
    ),
}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of both; mappings of the same setting are joined."""
    both = {**one, **other}
    for name in one.keys() & other.keys():
        if isinstance(one[name], Mapping):
            both[name] = {**one[name], **other[name]}
    return both


def written(uri: str) -> int:
    return sum(counts(read_examples(uri)).values())


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    cure: Cure = request.getfixturevalue("cure")
    write_files(tmp_path / "in", cure.files())
    return str(tmp_path / "in" / cure.below)


@pytest.mark.parametrize("cure", CURES.values(), ids=CURES)
def test_cure_works_in_python(cure: Cure, source: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, DatasetError)) as refused:
        pipelines.convert(source, str(tmp_path / "refused"), **cure.given)
    assert cure.advice in str(refused.value)
    write_files(Path(source), cure.more)
    settings = merged(cure.given, cure.settings)
    assert written(pipelines.convert(source, str(tmp_path / "out"), **settings)) == cure.written


@pytest.mark.parametrize("cure", CURES.values(), ids=CURES)
def test_cure_works_on_the_command_line(cure: Cure, source: str, tmp_path: Path) -> None:
    given = shlex.split(as_flags(cure.given))
    refused = CliRunner().invoke(app, ["convert", source, str(tmp_path / "refused"), *given])
    assert refused.exit_code in (1, 2)
    assert cure.advice in refused.stderr
    write_files(Path(source), cure.more)
    arguments = ["convert", source, str(tmp_path / "out"), *given, *cure.flags]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert written(newest_dataset(str(tmp_path / "out"))) == cure.written


@pytest.mark.parametrize("cure", CURES.values(), ids=CURES)
def test_cure_works_in_the_component(cure: Cure, source: str, tmp_path: Path) -> None:
    pytest.importorskip("tfx", reason="components needs TFX")
    import components
    from components import steps
    from components.tfx.example_gen import selection_of

    write_files(Path(source), cure.more)
    kind = cure.settings.get("kind", cure.kind)
    component = getattr(components, f"{kind.capitalize()}ExampleGen")
    settings = merged(cure.given, cure.settings)
    settings.pop("kind", None)
    properties = component(input_base=source, **settings).exec_properties
    kind_of_settings = component.DRIVER_CLASS.settings_class
    made = steps.convert(
        selection_of(properties),
        str(tmp_path / "out"),
        kind_of_settings.from_properties(properties),
    )
    assert made.manifest.total.written == cure.written


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z_-]+")
BEAM_FLAGS = {"--runner", "--direct_num_workers", "--executor-class-path"}


def messages() -> list[tuple[str, str]]:
    """Return place and text of each string in the sources that is not a docstring."""
    found = []
    for package in ("components", "pipelines"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            tree = ast.parse(path.read_text())
            docstrings = {
                id(node.body[0].value)
                for node in ast.walk(tree)
                if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
                and node.body
                and isinstance(node.body[0], ast.Expr)
            }
            found += [
                (f"{path.relative_to(REPOSITORY)}:{node.lineno}", node.value)
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and " " in node.value
                and id(node) not in docstrings
            ]
    return found


def test_each_flag_in_a_message_exists() -> None:
    import click

    known = {
        flag
        for command in COMMANDS.values()
        for one in command.get_params(click.Context(command))
        for flag in (*one.opts, *one.secondary_opts)
    }
    unknown = [
        (place, flag)
        for place, text in messages()
        if not place.startswith(("pipelines/examples/", "components/kubeflow/"))
        for flag in FLAG.findall(text)
        if flag not in known | BEAM_FLAGS
    ]
    assert unknown == []
