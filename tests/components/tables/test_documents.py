"""Files that are one text each, in folders of splits and classes."""

import pytest

FOLDERS = {
    "split and class": {
        "train/pos/1.txt": ("train", "pos"),
        "train/neg/2.txt": ("train", "neg"),
        "test/pos/0_10.txt": ("test", "pos"),
    },
    "class": {"pos/1.txt": (None, "pos"), "neg/1.txt": (None, "neg")},
    "nested below the class": {
        "train/pos/2024/1.txt": ("train", "pos"),
        "train/neg/2.txt": ("train", "neg"),
    },
    "split": {"train/1.txt": ("train", None), "dev/1.txt": ("eval", None)},
    "files alone": {"one.txt": (None, None), "two.txt": (None, None)},
    "other names": {"pos/README": (None, "pos"), "neg/mail.eml": (None, "neg")},
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_give_split_and_label_of_each_file(convert, case):
    expected = FOLDERS[case]
    settings = {"layout": "folder"} if case == "split" else {}
    files = {name: f"Text of {name}.\r\nAnd more. \n" for name in expected}
    dataset = convert(files, **settings)
    assert dataset.texts() == files
    splits = dataset.split_of()
    assert all(splits[name] == split for name, (split, _) in expected.items() if split)
    if any(label for _, label in expected.values()):
        assert dataset.labels() == {name: label for name, (_, label) in expected.items()}


def test_hidden_files_are_skipped_and_strays_are_rejected(convert):
    files = {"train/pos/1.txt": "a", "test/neg/1.txt": "b", "train/pos/.hidden": "x"}
    strays = {"imdb.vocab": "the", "train/urls_pos.txt": "http://"}
    dataset = convert({**files, **strays}, max_reject_fraction=0.5)
    assert dataset.labels() == {"train/pos/1.txt": "pos", "test/neg/1.txt": "neg"}
    assert {line["source"]: line["code"] for line in dataset.rejects} == {
        "imdb.vocab": "NO_SPLIT",
        "train/urls_pos.txt": "NO_LABEL",
    }
    assert dataset.counts() == {"found": 5, "written": 2, "rejected": 2, "skipped": 1}
