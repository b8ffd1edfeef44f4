"""Inputs that ImageExampleGen rejects, skips or refuses, and the limit of rejects."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from components.inputs.rejects import remedy
from tests.components.image_example_gen.image_runs import (
    convert,
    labels_of,
    photo,
    read,
    run,
    write_photos,
    write_tree,
)
from tests.components.runs import accounting, input_config, output_config, rejects_in
from trainer_utils.core.errors import InputError

CLUTTER = [
    *(".DS_Store", ".hidden.jpg", "cat/.thumb.jpg", ".git/objects/ab", "cat/.cache/1.jpg"),
    *("Thumbs.db", "cat/Thumbs.db", "desktop.ini", "__MACOSX/cat/1.jpg", "@eaDir/cat/1.jpg"),
    "$RECYCLE.BIN/1.jpg",
]


@pytest.mark.parametrize("target_shard_bytes", [1, 1 << 30])
def test_inputs_are_counted_in_manifest_artifact_and_log(
    tmp_path, our_messages, target_shard_bytes, subtests
):
    files = {
        **{f"train/cat/{number}.jpg": photo(number) for number in range(7)},
        **{f"train/dog/{number}.jpg": photo(10 + number) for number in range(4)},
        "train/dog/empty.jpg": b"",
        "train/dog/half.png": photo(20, "PNG")[:300],
        "train/stray.jpg": photo(21),
        **{name: photo(22) for name in CLUTTER},
        "eval/cat/1.jpg": photo(23),
        "eval/cat/2.jpg": b"text",
        "eval/cat/Thumbs.db": b"x",
        "test/dog/1.jpg": photo(24),
    }
    artifact = run(
        write_tree(tmp_path / "in", files),
        tmp_path / "out",
        max_reject_fraction=0.5,
        target_shard_bytes=target_shard_bytes,
    )
    some = len(CLUTTER)  # outside split folders, so they count in the first split
    expected = {
        "train": dict(found=14 + some, written=11, rejected=3, skipped=some),
        "eval": dict(found=3, written=1, rejected=1, skipped=1),
        "test": dict(found=1, written=1, rejected=0, skipped=0),
    }
    total = dict(found=18 + some, written=13, rejected=4, skipped=1 + some)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert {name: accounting(entry) for name, entry in manifest["splits"].items()} == expected
    assert accounting(manifest["total"]) == total
    records = {split: len(examples) for split, examples in read(tmp_path / "out").items()}
    assert records == {"train": 11, "eval": 1, "test": 1}
    lines = Counter(line["split"] for line in rejects_in(tmp_path / "out"))
    assert lines == {"train": 3, "eval": 1}
    codes = {"EMPTY_FILE": 1, "TRUNCATED_IMAGE": 1, "NO_LABEL": 1, "NOT_AN_IMAGE": 1}
    assert manifest["rejects"] == codes
    assert manifest["splits"]["train"]["labels"] == {"cat": 7, "dog": 4}
    for prefix, counts in {"": total, **{f"{name}_": n for name, n in expected.items()}}.items():
        with subtests.test(prefix=prefix):
            for name, count in counts.items():
                assert artifact.get_int_custom_property(prefix + name) == count
    said = f"{18 + some} found = 13 written + 4 rejected + {1 + some} skipped"
    assert said in our_messages()[-1]


BAD_FILES = {
    "empty": (b"", "EMPTY_FILE"),
    "text": (b"These are notes, not a photo.\n", "NOT_AN_IMAGE"),
    "half a JPEG": (photo(1)[: len(photo(1)) // 2], "TRUNCATED_IMAGE"),
    "PNG without its end": (photo(1, "PNG")[:-4], "TRUNCATED_IMAGE"),
    "damaged PNG": (photo(1, "PNG").replace(b"IDAT", b"IDAT\1"), "DAMAGED_IMAGE"),
    "PPM": (photo(1, "PPM"), "UNSUPPORTED_FORMAT"),
}


def test_bad_file_is_one_reject_with_a_code(tmp_path):
    files: dict[str, bytes] = {"train/b/other.jpg": photo(9)}
    files |= {f"train/a/{name}.jpg": data for name, (data, _) in BAD_FILES.items()}
    base = write_tree(tmp_path / "in", {"train/a/good.jpg": photo(0), **files})
    manifest = convert(base, tmp_path / "out", max_reject_fraction=0.99)
    lines = rejects_in(tmp_path / "out")
    assert all(line.pop("detail") for line in lines)
    assert {line["code"]: line["remedy"] for line in lines} == {
        code: remedy(code) for _, code in BAD_FILES.values()
    }
    codes = {line["source"]: line["code"] for line in lines}
    assert codes == {f"train/a/{name}.jpg": code for name, (_, code) in BAD_FILES.items()}
    assert manifest["rejects"] == Counter(code for _, code in BAD_FILES.values())
    assert labels_of(tmp_path / "out") == {"train/a/good.jpg": "a", "train/b/other.jpg": "b"}


def test_links_to_nowhere_and_special_files_are_rejected(tmp_path):
    base = write_photos(tmp_path / "in", "train/a/good.jpg", "train/b/other.jpg")
    links = {"nowhere": ("nowhere.jpg", "UNREADABLE"), "itself": ("itself.jpg", "UNREADABLE")}
    for name, (target, _) in links.items():
        (base / f"train/a/{name}.jpg").symlink_to(target)
    os.mkfifo(base / "train/a/pipe.jpg")
    convert(base, tmp_path / "out", max_reject_fraction=0.9)
    lines = rejects_in(tmp_path / "out")
    expected = {f"train/a/{name}.jpg": code for name, (_, code) in links.items()}
    assert {line["source"]: line["code"] for line in lines} == {
        **expected,
        "train/a/pipe.jpg": "NOT_A_FILE",
    }
    assert labels_of(tmp_path / "out").keys() == {"train/a/good.jpg", "train/b/other.jpg"}


def link_to_a_file(base: Path) -> None:
    (base / "a/link.jpg").symlink_to(write_photos(base.parent / "in-2", "1.jpg") / "1.jpg")


def link_to_a_folder(base: Path) -> None:
    (base / "c").symlink_to(write_photos(base.parent / "elsewhere", "1.jpg"))


@pytest.mark.parametrize(
    ("make", "path", "label"),
    [(link_to_a_file, "a/link.jpg", "a"), (link_to_a_folder, "c/1.jpg", "c")],
)
def test_links_are_followed_or_end_the_run(tmp_path, make, path, label):
    base = write_photos(tmp_path / "in", "a/5.jpg", "b/6.jpg")
    make(base)
    linked = path if label == "a" else label
    refused(base, tmp_path / "none", [linked, "--follow-links", f"--ignore {linked}"])
    convert(base, tmp_path / "without", ignore=[linked])
    labels = {"a/5.jpg": "a", "b/6.jpg": "b"}
    assert labels_of(tmp_path / "without") == labels
    (base / "b/loop").symlink_to(base)
    convert(base, tmp_path / "out", follow_links=True)
    assert labels_of(tmp_path / "out") == {**labels, path: label}


def test_photo_next_to_the_folders_is_rejected(tmp_path, subtests):
    for number, (names, expected) in enumerate(
        (
            (["train/a/1.jpg", "test/a/2.jpg", "train/b/3.jpg", "b.jpg"], {"b.jpg": "NO_SPLIT"}),
            (["train/a/1.jpg", "train/b/2.jpg", "train/b.jpg"], {"train/b.jpg": "NO_LABEL"}),
            (["a/1.jpg", "b/2.jpg", "b.jpg"], {"b.jpg": "NO_LABEL"}),
        )
    ):
        with subtests.test(number=number):
            base, uri = write_photos(tmp_path / f"in-{number}", *names), tmp_path / f"out-{number}"
            convert(base, uri, max_reject_fraction=0.5)
            lines = rejects_in(uri)
            assert {line["source"]: line["code"] for line in lines} == expected
            assert labels_of(uri).keys() == {*names[:-1]}


@pytest.mark.parametrize(
    ("good", "bad", "settings", "are_allowed"),
    [
        (10, 10, {"max_reject_fraction": 0.5}, True),
        (99, 1, {}, True),
        (10, 12, {"max_reject_fraction": 0.5}, False),
        (98, 1, {}, False),
    ],
)
def test_too_many_rejects_fail_with_count_and_first_ten(tmp_path, good, bad, settings, are_allowed):
    files = {f"{number:03d}.jpg": photo(number) for number in range(good)}
    files |= {f"bad-{number:03d}.jpg": b"" for number in range(bad)}
    base, out = write_tree(tmp_path / "in", files), tmp_path / "out"
    one_split = output_config(all=1)  # because rejects are listed by split
    settings = {**settings, "output_config": one_split}
    if are_allowed:
        counts = dict(found=good + bad, written=good, rejected=bad, skipped=0)
        assert accounting(convert(base, out, **settings)["total"]) == counts
        return
    with pytest.raises(InputError) as caught:
        convert(base, out, **settings)
    message = str(caught.value)
    assert message.startswith(f"{bad} of {good + bad} inputs were rejected ({bad} EMPTY_FILE), ")
    shown = [f"bad-{number:03d}.jpg" in message for number in range(bad)]
    assert shown == [True] * min(bad, 10) + [False] * max(bad - 10, 0)
    lines = message.splitlines()
    assert lines[1] == "  bad-000.jpg: EMPTY_FILE (0 bytes)"
    assert lines[-2] == "EMPTY_FILE: restore or remove it."
    assert lines[-1].startswith("To leave them out: max_reject_fraction=")
    (listed,) = (Path(word.rstrip(".")) for word in message.split() if ".jsonl" in word)
    sources = [json.loads(line)["source"] for line in listed.read_text().splitlines()]
    assert sources == [f"bad-{number:03d}.jpg" for number in range(bad)]


ANY: dict[str, Any] = {"max_reject_fraction": 1}
TWO = {"1.jpg": photo(1), "2.jpg": photo(2)}
FOLDERS = dict.fromkeys(["val/1.jpg", "val/2.jpg", "train/cat/3.jpg", "train/dog/4.jpg"], photo(1))


def csv(text: str) -> dict[str, bytes]:
    """Return a CSV in Latin-1, 1.jpg and 2.jpg."""
    return {**TWO, "list.csv": text.encode("latin-1")}


# Files, settings, and words of the message
NO_DATASET: dict[str, tuple[dict[str, bytes], dict[str, Any], list[str]]] = {
    "a plain list": (
        {**FOLDERS, "val.txt": b"1.jpg 65\n"},
        ANY,
        ["'val.txt'", "'1.jpg 65'", "CSV"],
    ),
    "a plain list of paths": (
        {**FOLDERS, "train.lst": b"./train/cat/3.jpg\t0\n"},
        ANY,
        ["'train.lst'", "filename,label", "--ignore train.lst"],
    ),
    "no folder": ({}, {}, ["{base}"]),
    "text alone": ({"a.txt": b"no photo"}, ANY, ["{base}", "'a.txt'", "ignore=['*.txt']"]),
    "hidden and text": (
        {".DS_Store": b"x", "a.txt": b"no photo"},
        ANY,
        ["{base}", "'a.txt'", "--ignore '*.txt'"],
    ),
    "an unknown folder beside splits": (
        {f"{name}/1.jpg": photo(1) for name in ("train", "test", "holdout")},
        {},
        ["{base}", "train", "test", "holdout"],
    ),
    "an unknown split": (
        csv("TRAIN,1.jpg,a\nHOLDOUT,2.jpg,a\n"),
        {},
        ["2.jpg", "'HOLDOUT'", "line 2"],
    ),
    "a column too few": (
        csv("TRAIN,1.jpg,a\nTRAIN,2.jpg\n"),
        {},
        ["list.csv", "expected 3", "got 2", "line 2"],
    ),
    "Latin-1": (csv("TRAIN,1.jpg,caf\xe9\n"), {}, ["list.csv", "UTF-8", "line 1"]),
    "a label of two lines": (csv('TRAIN,1.jpg,"a\nb"\n'), {}, ["'a\\nb'", "one line"]),
    "an empty CSV": (csv(""), {}, ["list.csv"]),
    "no CSV file": (TWO, {"layout": "csv"}, ["{base}", "layout='csv'"]),
    "a pattern of nothing": (
        TWO,
        {"input_config": input_config(train="nothing-here/*")},
        ["{base}", "'nothing-here/*'"],
    ),
    "patterns that overlap": (
        {"a/1.jpg": photo(1), "b/2.jpg": photo(2)},
        {"input_config": input_config(train="*", test="b/*")},
        ["'b/2.jpg'", "two"],
    ),
}


def refused(base: Any, out: Any, words: list[str], **settings: Any) -> None:
    with pytest.raises(InputError) as caught:
        convert(base, out, **settings)
    message = str(caught.value)
    assert "\n" not in caught.value.args[0]
    assert [word for word in words if word.format(base=base) not in message] == []
    assert not (out / "manifest.json").exists()


def test_unusable_input_is_refused_in_one_sentence(tmp_path):
    for case, (files, settings, words) in NO_DATASET.items():
        refused(write_tree(tmp_path / case, files), tmp_path / "out", words, **settings)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", tmp_path / "out", ["{base}", "empty"])
