"""What the terminal sees of values."""

import csv

from pipelines.tools.records import as_text, export_examples, read_examples

HOSTILE = "red \x1b[31m bell \x07 line \u2028 end\nforged"


def test_the_terminal_sees_what_values_are(dataset):
    (text,) = [as_text(read_examples(dataset, "train[1:2]"))]
    lines = {line.split()[0]: line.split(None, 1)[1] for line in text.splitlines()}
    assert text.startswith("train 1\n")
    assert lines["image"].startswith("JPEG, 40 x 48 x 3, ")
    assert lines["label"] == "1 (dog)"
    assert lines["text"] == '"text number 1"'
    assert lines["sound"].startswith("WAV, ")
    assert lines["boxes"] == "[0.5, 0.25]"
    assert lines["pixels"] == "RAW, 40 x 48 x 3, 5.8 kB"
    assert lines["many"] == "[0, 1, 2, 3, 4, 5, 6, 7, … 20 values]"


def test_hostile_texts_neither_steer_the_terminal_nor_forge_lines(write_dataset, tmp_path):
    example = {HOSTILE: [HOSTILE.encode()], "latin": ["naïve 北京".encode()]}
    uri = write_dataset(tmp_path / "hostile", {"train": [[example]]}, {})
    text = as_text(read_examples(uri))
    assert len(text.split("\n")) == 3
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "naïve 北京" in text


def test_an_export_holds_every_text_a_nul_among_them(write_dataset, tmp_path):
    texts = ["plain", 'a "quote", and\r\nlines', "a\0b", "x" * 40_000]
    examples = [{"text": [text.encode()]} for text in texts]
    uri = write_dataset(tmp_path / "texts", {"train": [examples]}, {})
    assert export_examples(read_examples(uri), str(tmp_path / "out")) == len(texts)
    with open(tmp_path / "out/examples.csv", encoding="utf-8", newline="") as stream:
        cells = [row["text"] for row in csv.DictReader(stream)]
    assert cells[:2] == texts[:2]
    assert [(tmp_path / "out" / name).read_bytes().decode() for name in cells[2:]] == texts[2:]
