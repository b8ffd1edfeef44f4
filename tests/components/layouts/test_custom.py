"""Layouts that other packages register."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.inputs.listing import FileTable, LayoutInputs
from components.layouts import Item, layout, registry
from components.layouts.reading import name_layout, read_layout
from components.steps import conversion_of, convert
from tests.cases.examples import all_of, read_examples
from tests.make import REPOSITORY, jpeg, wav, write_files
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.storage import list_files

MINE = '''
from components.layouts import Item, layout


@layout("mine", detect=lambda folder: "index.txt" in folder.list())
def read(folder):
    """index.txt: 1.jpg train cat"""
    for line in folder.read_text("index.txt").splitlines():
        name, split, label = line.split()
        yield Item({"image": folder.file(name), "label": label}, split=split)
'''
INDEX = "a/1.jpg train cat\na/2.jpg train dog\na/3.jpg val cat\n"
PHOTOS = {f"a/{number}.jpg": jpeg(number) for number in (1, 2, 3)}


@pytest.fixture(autouse=True)
def _no_other_layouts():
    registry.all_layouts()  # imports the built-in layouts
    before = dict(registry._LAYOUTS)
    yield
    registry._LAYOUTS.clear()
    registry._LAYOUTS.update(before)


def inputs_of(base: Path, **options) -> LayoutInputs:
    files = FileTable.of(list_files(str(base)))
    return LayoutInputs(base=str(base), root="", files=files, **options)


def placed(uri: Path) -> dict:
    return {
        example["filename"]: (split, example["label"])
        for split, examples in read_examples(str(uri)).items()
        for example in examples
    }


def test_custom_layout_is_read_by_name_and_by_its_detection(tmp_path, subtests):
    exec(MINE, {"__name__": "mine"})
    base = write_files(tmp_path / "in", {**PHOTOS, "index.txt": INDEX})
    expected = {
        "a/1.jpg": ("train", "cat"),
        "a/2.jpg": ("train", "dog"),
        "a/3.jpg": ("eval", "cat"),
    }
    for number, settings in enumerate((ImageSettings(), ImageSettings(layout="mine"))):
        with subtests.test(number=number):
            convert(str(base), str(tmp_path / f"out-{number}"), settings)
            assert placed(tmp_path / f"out-{number}") == expected
    assert name_layout(inputs_of(base), layout="auto") == "mine"
    (base / "index.txt").unlink()
    assert name_layout(inputs_of(base), layout="auto") == "folder"


def test_page_shows_the_layout_of_these_tests():
    blocks = (REPOSITORY / "docs/own-layout.md").read_text().split("```python\n")
    assert MINE.strip() in [block.split("```")[0].strip() for block in blocks]


def test_custom_layout_is_read_by_the_component(tmp_path):
    pytest.importorskip("tfx", reason="the component needs TFX")
    from components import ImageExampleGen
    from components.image_example_gen import Executor
    from tests.components import runs

    exec(MINE, {"__name__": "mine"})
    base = write_files(tmp_path / "in", {**PHOTOS, "index.txt": INDEX})
    assert ImageExampleGen(input_base=str(base), layout="mine").exec_properties["layout"] == "mine"
    runs.run(Executor, base, tmp_path / "out", layout="mine")
    assert len(placed(tmp_path / "out")) == 3


def test_custom_layout_gives_texts_and_audio(tmp_path):
    @layout("pairs", detect=lambda folder: "a.wav" in folder.list())
    def read(folder):
        for name in ("a", "b"):
            text = folder.file(f"{name}.txt")
            yield Item({"audio": folder.file(f"{name}.wav"), "text": text, "n": 1.5}, split="train")

    @layout("texts", kinds=("text",), detect=lambda folder: folder.list() == ("a.txt", "b.txt"))
    def read_texts(folder):
        yield Item({"text": folder.file("a.txt"), "label": "x"}, split="train")
        yield Item({"text": folder.file("b.txt"), "label": "y"}, split="dev", name="b")

    texts = {"a.txt": "Äpfel", "b.txt": "Birnen"}
    base = write_files(tmp_path / "audio", {**texts, "a.wav": wav(1), "b.wav": wav(2)})
    convert(str(base), str(tmp_path / "one"), AudioSettings())
    found = all_of(read_examples(str(tmp_path / "one")))
    assert sorted(example["text"] for example in found) == ["Birnen", "Äpfel"]
    assert {(example["n"], example["num_frames"]) for example in found} == {(1.5, 400)}
    base = write_files(tmp_path / "texts", texts)
    convert(str(base), str(tmp_path / "two"), TextSettings())
    assert placed(tmp_path / "two") == {"a.txt": ("train", "x"), "b": ("eval", "y")}


def test_items_without_files_are_examples(tmp_path):
    @layout("words", kinds=("text",))
    def read(folder):
        for number, word in enumerate(folder.read_text("words.md").split()):
            yield Item({"text": word, "label": len(word)}, split="train", name=str(number))

    base = write_files(tmp_path / "in", {"words.md": "one three"})
    convert(str(base), str(tmp_path / "out"), TextSettings(layout="words"))
    found = {e["text"]: e["label"] for e in all_of(read_examples(str(tmp_path / "out")))}
    assert found == {"one": 3, "three": 5}
    with pytest.raises(ConfigError, match="lowercase"):
        TextSettings(layout="words", lowercase=True)


def test_missing_file_and_label_reject_an_item(tmp_path):
    @layout("mine")
    def read(folder):
        yield Item({"image": folder.file("a/1.jpg"), "label": "x"})
        yield Item({"image": folder.file("gone.jpg"), "label": "x"})
        yield Item({"image": folder.file("a/2.jpg"), "label": None})

    table = read_layout(inputs_of(write_files(tmp_path, PHOTOS)), layout="mine")
    assert [entry.name for entry in table.entries] == ["a/1.jpg"]
    assert {left.name: left.code for left in table.excluded} == {
        "gone.jpg": "FILE_NOT_FOUND",
        "a/2.jpg": "NO_LABEL",
    }


def test_wrong_items_are_refused(tmp_path, subtests):
    for wrong in ("1.jpg", Item({}), ("1.jpg", "train")):
        with subtests.test(wrong=wrong):

            @layout("mine")
            def read(folder, wrong=wrong):
                yield wrong

            with pytest.raises(InputError, match="layout 'mine', item 0"):
                read_layout(inputs_of(write_files(tmp_path, PHOTOS)), layout="mine")


def test_wrong_names_are_refused(subtests):
    exec(MINE, {"__name__": "mine"})
    with pytest.raises(ConfigError, match=r"[Dd]id you mean 'mine'"):
        ImageSettings(layout="mien")
    for name in ("auto", "", "a b"):
        with subtests.test(name=name):
            with pytest.raises(ConfigError, match="layout"):
                layout(name)
    with pytest.raises(ConfigError, match=r"mine.*has not registered"):
        exec(MINE, {"__name__": "another"})
    with pytest.raises(ConfigError, match="kinds"):
        layout("x", kinds=("video",))


def test_code_of_a_layout_is_part_of_the_key(tmp_path, monkeypatch):
    base = write_files(tmp_path / "in", {**PHOTOS, "index.txt": INDEX})
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for number, more in enumerate(("", "", "# another")):
        registry._LAYOUTS.pop("mine", None)
        write_files(tmp_path, {f"mine_{number}.py": MINE + more})
        importlib.import_module(f"mine_{number}")
        keys.append(conversion_of(str(base), ImageSettings(layout="mine")).key())
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.e2e
def test_entry_point_adds_a_layout_to_the_command_line(tmp_path):
    package = tmp_path / "site"
    write_files(package, {"mine.py": MINE})
    write_files(
        package / "mine-1.0.dist-info",
        {
            "METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
            "entry_points.txt": "[tfx_shards.layouts]\nmine = mine\n",
        },
    )
    base = write_files(tmp_path / "in", {**PHOTOS, "index.txt": INDEX})
    command = [sys.executable, "-m", "pipelines", "convert", str(base), str(tmp_path / "out")]
    environment = {"PYTHONPATH": f"{REPOSITORY}:{package}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "--layout", "mine", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accounting"]["total"]["written"] == 3
