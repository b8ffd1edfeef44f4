"""Texts whose lines have labels, columns or pairs are refused with a command that keeps them."""

import gzip
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import pipelines
from tests.cases.examples import all_of, counts, read_examples
from tests.make import write_files
from trainer_utils.core.errors import InputError

Files = Mapping[str, str]
FASTTEXT = "".join(f"__label__{'ab'[n % 2]} text  {n}\n" for n in range(6))
SEVERAL = "__label__a __label__b text 0\n__label__b text 1\n__label__a text 2\n"
LIBSVM = "+1 1:0.5 3:7\n-1 2:1e-3\n1 4:1 # note\n"
PAIR = {"text": [f"line {n}" for n in range(4)], "Text": [f"Zeile {n}" for n in range(4)]}
ENGLISH, GERMAN = ("".join(f"{line}\n" for line in lines) for lines in PAIR.values())


def refusal(source: Path, out: Path) -> str:
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(source), str(out))
    return str(refused.value)


def follow(message: str, out: Path) -> str:
    """Run the command of a message, and return the address of the dataset."""
    command = re.search(r"instead[^:]*: (.*) && (tfx-shards convert .* OUT)\. ", message)
    assert command is not None, message
    script = command[1].replace("python3 -c", f"{shlex.quote(sys.executable)} -c")
    subprocess.run(["bash", "-ec", script], check=True)
    source = shlex.split(command[2])[2]
    names_splits = any(re.search("train|val|dev", path.stem) for path in Path(source).glob("*"))
    settings = {} if names_splits else {"splits": {"train": 1}}
    return str(pipelines.convert(source, str(out), **settings))


ROWS: Mapping[str, tuple[Files, set[Any]]] = {
    "fastText": ({"train.txt": FASTTEXT}, {(("ab"[n % 2]), f"text  {n}") for n in range(6)}),
    "fastText in two files": (
        {"my cooking.train": FASTTEXT, "my cooking.valid": "__label__c x\n" * 3},
        {(("ab"[n % 2]), f"text  {n}") for n in range(6)} | {("c", "x")},
    ),
    "several labels of fastText": (
        {"train.txt": SEVERAL},
        {("a, b", "text 0"), ("b", "text 1"), ("a", "text 2")},
    ),
}


@pytest.mark.parametrize(("files", "rows"), ROWS.values(), ids=ROWS)
def test_fasttext_keeps_its_labels_by_the_command(
    files: Files, rows: set[Any], tmp_path: Path
) -> None:
    write_files(tmp_path / "the in", files)
    uri = follow(refusal(tmp_path / "the in", tmp_path / "no"), tmp_path / "out")

    def label(value: Any) -> str:
        return value if isinstance(value, str) else ", ".join(value)

    assert {(label(row["label"]), row["text"]) for row in all_of(read_examples(uri))} == rows


@pytest.mark.parametrize("name", ["train.txt", "a9a", "a9a.libsvm"])
def test_libsvm_keeps_its_features_by_the_command(name: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {name: LIBSVM})
    uri = follow(refusal(tmp_path / "in", tmp_path / "no"), tmp_path / "out")
    rows = {tuple(row["indices"]): row for row in all_of(read_examples(uri))}
    assert {*rows} == {(1, 3), (2,), (4,)}
    assert rows[1, 3]["values"] == [0.5, 7]
    assert [rows[key]["label"] for key in sorted(rows)] == [1, -1, 1]


LABELLED: Mapping[str, tuple[str, set[Any]]] = {
    "numbers": (
        "".join(f"{n % 2} film  number {n}\n" for n in range(10)),
        {(n % 2, f"film  number {n}") for n in range(10)},
    ),
    "signs": (
        "".join(f"{'+-'[n % 2]}1\tfilm {n}\n" for n in range(10)),
        {((1, -1)[n % 2], f"film {n}") for n in range(10)},
    ),
    "codes": (
        "".join(f"{('DESC:def', 'HUM:ind')[n % 2]} Who is {n} ?\n" for n in range(10)),
        {(("DESC:def", "HUM:ind")[n % 2], f"Who is {n} ?") for n in range(10)},
    ),
}


@pytest.mark.parametrize(("text", "rows"), LABELLED.values(), ids=LABELLED)
@pytest.mark.parametrize("name", ["train.txt", "train_5500.label"])
def test_labels_before_texts_are_kept_by_the_command(
    name: str, text: str, rows: set[Any], tmp_path: Path
) -> None:
    write_files(tmp_path / "in", {name: text})
    message = refusal(tmp_path / "in", tmp_path / "no")
    assert "a label at the beginning of each line" in message
    examples = all_of(read_examples(follow(message, tmp_path / "out")))
    assert {(row["label"], row["text"]) for row in examples} == rows


NUMBERED = {
    "numbers of lines": "".join(f"{n} a line\n" for n in range(30)),
    "numbers alone": "".join(f"{n % 2} 17 4\n" for n in range(30)),
    "one beginning": "".join(f"2 apples and {n} pears\n" for n in range(30)),
    "words": "".join(f"{('The', 'A')[n % 2]} film number {n}\n" for n in range(30)),
}


@pytest.mark.parametrize("text", NUMBERED.values(), ids=NUMBERED)
def test_other_beginnings_of_lines_are_texts(text: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"train.txt": text})
    examples = all_of(read_examples(str(pipelines.convert(tmp_path / "in", tmp_path / "out"))))
    assert {row["text"] for row in examples} == {*text.splitlines()}


TAGGED: Mapping[str, tuple[str, str, set[Any]]] = {
    "CoNLL 2003": (
        "train.txt",
        "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP B-PER\n",
        {(("EU", "rejects"), ("B-ORG", "O")), (("Peter",), ("B-PER",))},
    ),
    "WNUT": (
        "wnut17train.conll",
        "in\tO\nthe\tO\nSoho\tB-location\n\nat\tO\nhome\tO\n",
        {(("in", "the", "Soho"), ("O", "O", "B-location")), (("at", "home"), ("O", "O"))},
    ),
    "CoNLL-U": (
        "en-ud-train.conllu",
        "".join(
            f"# text = {' '.join(words)}\n"
            + "".join(
                f"{n}\t{w}\t{w}\tNOUN\tNN\t_\t0\troot\t_\t_\n" for n, w in enumerate(words, 1)
            )
            + "\n"
            for words in (("big", "cats"), ("small", "dogs"))
        ),
        {(("big", "cats"), ("NOUN", "NOUN")), (("small", "dogs"), ("NOUN", "NOUN"))},
    ),
}


@pytest.mark.parametrize(("name", "text", "rows"), TAGGED.values(), ids=TAGGED)
def test_tagged_sentences_are_kept_by_the_command(
    name: str, text: str, rows: set[Any], tmp_path: Path
) -> None:
    write_files(tmp_path / "in", {name: text})
    uri = follow(refusal(tmp_path / "in", tmp_path / "no"), tmp_path / "out")
    examples = all_of(read_examples(uri))
    assert {(tuple(row["tokens"]), tuple(row["tags"])) for row in examples} == rows


def test_single_file_of_many_lines_is_reported(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    write_files(tmp_path / "in", {"ratings.dat": "".join(f"{n}::{n}::5\n" for n in range(9))})
    pipelines.convert(tmp_path / "in", tmp_path / "out")
    assert any("becomes one example" in message for message in our_messages())
    pipelines.convert(tmp_path / "in", tmp_path / "lines", layout="lines")
    assert len(all_of(read_examples(str(tmp_path / "lines" / "latest")))) == 9


@pytest.mark.parametrize("names", [("pos.txt", "neg.txt"), ("rt-polarity.pos", "rt-polarity.neg")])
def test_names_of_files_become_labels_by_the_command(
    names: tuple[str, str], tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    write_files(tmp_path / "in", {n: "".join(f"{n} film {i}\n" for i in range(9)) for n in names})
    pipelines.convert(tmp_path / "in", tmp_path / "no")
    message = next(message for message in our_messages() if "become one example each" in message)
    examples = all_of(read_examples(follow(f"{message}. ", tmp_path / "out")))
    assert len(examples) == 18
    assert all(row["text"].startswith(row["label"]) for row in examples)
    assert {row["label"] for row in examples} == {name.removesuffix(".txt") for name in names}


@pytest.mark.parametrize("is_alone", [False, True])
def test_packed_lines_have_a_command_as_well(is_alone: bool, tmp_path: Path) -> None:
    names = ["cook"] if is_alone else ["train", "dev"]
    packed = {f"{name}.txt.gz": gzip.compress(FASTTEXT.encode()) for name in names}
    write_files(tmp_path / "in", packed)
    source = tmp_path / "in" / ("cook.txt.gz" if is_alone else "")
    uri = follow(refusal(source, tmp_path / "no"), tmp_path / "out")
    assert len(all_of(read_examples(uri))) == (6 if is_alone else 12)


def test_packed_texts_without_splits_are_lines_by_the_advice(tmp_path: Path) -> None:
    data = gzip.compress(b"A line of prose.\nAnother one.\nThe last.\n")
    write_files(tmp_path / "in", {"corpus.txt.gz": data})
    assert "layout='lines'" in refusal(tmp_path / "in", tmp_path / "no")
    result = pipelines.convert(tmp_path / "in", tmp_path / "out", layout="lines")
    assert len(all_of(read_examples(str(result)))) == 3


@pytest.mark.parametrize("packed_at", range(3))
def test_packed_prose_is_read_as_lines(packed_at: int, tmp_path: Path) -> None:
    data = gzip.compress(b"A line of prose.\nAnother one.\nThe last.\n", mtime=packed_at)
    write_files(tmp_path / "in", {"train.txt.gz": data})
    assert (
        len(all_of(read_examples(str(pipelines.convert(tmp_path / "in", tmp_path / "out"))))) == 3
    )


def test_single_file_has_a_command_as_well(tmp_path: Path) -> None:
    write_files(tmp_path, {"cooking.txt": FASTTEXT})
    uri = follow(refusal(tmp_path / "cooking.txt", tmp_path / "no"), tmp_path / "out")
    assert len(all_of(read_examples(uri))) == 6


PARALLEL: Mapping[str, tuple[Files, tuple[str, str], int]] = {
    "endings": ({"train.en": ENGLISH, "train.de": GERMAN}, ("en", "de"), 4),
    "endings by split": (
        {f"{s}.{e}": t for s in ("train", "dev") for e, t in (("en", ENGLISH), ("de", GERMAN))},
        ("en", "de"),
        8,
    ),
    "a short split": (
        {"train.en": ENGLISH, "train.de": GERMAN, "dev.en": "a\n", "dev.de": "b\n"},
        ("en", "de"),
        5,
    ),
    "before .txt": ({"train.en.txt": ENGLISH, "train.de.txt": GERMAN}, ("en", "de"), 4),
    "Europarl": ({"a-v7.de-en.en": ENGLISH, "a-v7.de-en.de": GERMAN}, ("en", "de"), 4),
    "OpenNMT": (
        {
            f"{e}-{s}.txt": t
            for s in ("train", "val")
            for e, t in (("src", ENGLISH), ("tgt", GERMAN))
        },
        ("src", "tgt"),
        8,
    ),
    "sides": ({"train.source": ENGLISH, "train.target": GERMAN}, ("source", "target"), 4),
    "folders": ({"en/train.txt": ENGLISH, "de/train.txt": GERMAN}, ("en", "de"), 4),
    "with other files": (
        {"train.en": ENGLISH, "train.de": GERMAN, "notes": "some\nnotes\n"},
        ("en", "de"),
        4,
    ),
}


@pytest.mark.parametrize(("files", "sides", "written"), PARALLEL.values(), ids=PARALLEL)
def test_parallel_texts_keep_their_pairs_by_the_command(
    files: Files, sides: tuple[str, str], written: int, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", files)
    message = refusal(tmp_path / "in", tmp_path / "no")
    assert ("(without 1 other files)" in message) == ("notes" in files)
    rows = all_of(read_examples(follow(message, tmp_path / "out")))
    pairs = {(row[sides[0]], row[sides[1]]) for row in rows}
    assert len(rows) == written
    assert {(f"line {n}", f"Zeile {n}") for n in range(4)} <= pairs


@pytest.mark.parametrize(
    "files",
    [
        {"train.en": ENGLISH, "train.de": GERMAN + "more\n"},
        {"en.txt": "a line\n", "de.txt": "eine Zeile\n"},
        {"no/1.txt": ENGLISH, "so/1.txt": GERMAN},
    ],
    ids=["other numbers of lines", "single lines", "class folders"],
)
def test_texts_without_pairs_are_not_refused(files: Files, tmp_path: Path) -> None:
    write_files(tmp_path / "in", files)
    settings = {} if "train.en" in files else {"splits": {"train": 1}}
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), **settings)
    assert counts(read_examples(result)) == {"train": 2}


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("name", ["train.txt", "data.txt"])
def test_table_with_a_header_is_read_by_the_advice(
    delimiter: str, name: str, tmp_path: Path
) -> None:
    rows = "".join(f"a film{delimiter}{'ab'[n % 2]}\n" for n in range(6))
    write_files(tmp_path / "in", {name: f"text{delimiter}label\n{rows}"})
    message = refusal(tmp_path / "in", tmp_path / "no")
    advice = re.search(r"To read its columns: (.*?) \(--", message)
    assert advice is not None
    settings = eval(f"dict({advice[1]})")
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), **settings)
    assert sorted(row["label"] for row in all_of(read_examples(result))) == [*"aaabbb"]


def test_table_without_a_header_is_read_by_the_warning(
    tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    write_files(tmp_path / "in", {"train.txt": "i feel fine;joy\ni feel low;sad\nwell;joy\n"})
    pipelines.convert(str(tmp_path / "in"), str(tmp_path / "first"))
    (message,) = (m for m in our_messages() if "If they are rows of a table: " in m)
    settings = eval(f"dict({message.partition('a table: ')[2].rpartition(' (--')[0]})")
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), **settings)
    assert sorted(row["label"] for row in all_of(read_examples(result))) == ["joy", "joy", "sad"]


@pytest.mark.parametrize("text", [FASTTEXT, LIBSVM, "text,label\nx,a\ny,b\n"])
def test_named_layout_reads_the_lines_unchanged(text: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"train.txt": text})
    message = refusal(tmp_path / "in", tmp_path / "no")
    assert "If it is plain text: layout='lines' (--layout lines)." in message
    result = pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"), layout="lines")
    assert len(all_of(read_examples(result))) == text.count("\n")


@pytest.mark.parametrize("text", ["Well, yes\nOh, no\nSo, so\n", "1 2\n3 4\n5 6\n"])
def test_plain_texts_are_read_without_a_warning(
    text: str, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    write_files(tmp_path / "in", {"train.txt": text})
    pipelines.convert(str(tmp_path / "in"), str(tmp_path / "out"))
    assert not any("train.txt" in message for message in our_messages())
