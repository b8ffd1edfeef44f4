"""Tables in a folder: partitions, splits in paths, and other files next to them."""

import pyarrow as pa
import pyarrow.dataset
import pytest

from components.layouts.table_files import partitions_of
from tests.components.plain_runs import convert, read_records, write_files
from tests.components.tables.table_files import parquet_of
from trainer_utils.core.errors import InputError

ROWS = "text,n\na,1\nb,2\n"


def texts_of(tmp_path, files, **settings):
    """Return the texts of each split, in the order of the inputs."""
    converted = convert(write_files(tmp_path / "in", files), tmp_path / "out", **settings)
    records = read_records(tmp_path / "out", converted)
    return {split: [record["text"][0].decode() for record in of] for split, of in records.items()}


def test_partitions_become_typed_columns_as_in_pyarrow(tmp_path):
    table = pa.table(
        {
            "text": [f"text {n}" for n in range(6)],
            "year": [2023, 2023, 2024, 2024, 2024, 2024],
            "tag": ["a b", "c,d", "a b", "é", "c,d", None],
        }
    )
    source = tmp_path / "in"
    kind = pa.dataset.partitioning(
        pa.schema([("year", pa.int64()), ("tag", pa.string())]), flavor="hive"
    )
    pa.dataset.write_dataset(table, source, format="parquet", partitioning=kind)
    expected = pa.dataset.dataset(source, partitioning=kind).to_table().to_pylist()
    converted = convert(source, tmp_path / "out")
    tags = converted.vocabularies.get("tag")
    assert tags is None
    found = [
        {
            "text": record["text"][0].decode(),
            "year": record["year"][0],
            "tag": record["tag"][0].decode() if "tag" in record else None,
        }
        for records in read_records(tmp_path / "out", converted).values()
        for record in records
    ]
    order = lambda row: row["text"]  # noqa: E731
    assert sorted(found, key=order) == sorted(expected, key=order)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_partitions_are_read_with_every_kind_of_table(tmp_path, suffix):
    data = {
        "csv": "text\nx\n",
        "tsv": "text\nx\n",
        "jsonl": '{"text": "x"}\n',
        "parquet": parquet_of({"text": ["x"]}),
    }[suffix]
    files = {f"label={label}/part-0.{suffix}": data for label in ("pos", "neg")}
    converted = convert(write_files(tmp_path / "in", files), tmp_path / "out")
    assert converted.vocabularies == {"label": ("neg", "pos")}
    records = read_records(tmp_path / "out", converted)
    labels = {r["id"][0].decode(): r["label"] for of in records.values() for r in of}
    assert labels == {f"label=neg/part-0.{suffix}:1": [0], f"label=pos/part-0.{suffix}:1": [1]}


def test_a_partition_called_split_gives_splits(tmp_path):
    files = {"split=train/a.csv": ROWS, "split=test/a.csv": ROWS}
    assert texts_of(tmp_path, files) == {"train": ["a", "b"], "test": ["a", "b"]}


def test_partition_values_are_not_splits(tmp_path):
    files = {"train.d/label=test/a.csv": ROWS, "train.d/label=val/a.csv": ROWS}
    assert texts_of(tmp_path, files) == {"train": ["a", "b"] * 2}


def test_a_column_in_the_file_and_in_its_path_is_refused(tmp_path):
    source = write_files(tmp_path / "in", {"n=1/a.csv": ROWS})
    with pytest.raises(InputError, match="Rename the column, or the folder n=1"):
        convert(source, tmp_path / "out")


def test_special_characters_of_partitions_are_decoded():
    folders = ["x", "a%20b=c%2Fd", "k=__HIVE_DEFAULT_PARTITION__", "e=", "=f"]
    assert partitions_of(folders) == {"a b": "c/d", "k": None, "e": ""}


SPLITS = {
    "words in names": (["my_train_0.csv", "my_train_1.csv", "my_test_0.csv"], "train train test"),
    "folders": (["train/a.csv", "valid/a.csv"], "train eval"),
    "capitals": (["Training.csv", "Testing.csv"], "train test"),
    "a clone of the Hub": (["data/train-0.csv", "data/validation-0.csv"], "train eval"),
    "a folder with a word above": (["test_data/train.csv", "test_data/dev.csv"], "train eval"),
    "one file": (["imdb_train.csv"], "train"),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits_are_named_by_any_word_of_a_path(tmp_path, name):
    paths, splits = SPLITS[name]
    expected: dict[str, list[str]] = {}
    for split in splits.split():
        expected[split] = [*expected.get(split, []), "a", "b"]
    assert texts_of(tmp_path, dict.fromkeys(paths, ROWS)) == expected


def test_split_names_in_only_some_tables_are_refused(tmp_path):
    files = {"train.csv": ROWS, "more.csv": ROWS}
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match=r"name of a split in the path of every table.*more\.csv"):
        convert(source, tmp_path / "out")


def test_tables_in_folders_of_other_names_are_refused(tmp_path):
    source = write_files(tmp_path / "in", {"en/a.csv": ROWS, "de/a.csv": ROWS})
    with pytest.raises(InputError, match=r"Convert one folder at a time, such as '.*/in/de'"):
        convert(source, tmp_path / "out")
    converted = convert(source / "de", tmp_path / "out")
    assert sum(len(of) for of in read_records(tmp_path / "out", converted).values()) == 2


def test_documents_next_to_tables_are_skipped_and_counted(tmp_path):
    documents = ["README.md", "LICENSE", "data/README", "dataset_infos.json"]
    files = {"data/train.csv": ROWS, **dict.fromkeys(documents, "words"), "data/_SUCCESS": ""}
    source = write_files(tmp_path / "in", files)
    converted = convert(source, tmp_path / "out")
    assert converted.manifest.accounting["train"].written == 2
    assert converted.manifest.accounting["train"].rejected == 0


@pytest.mark.parametrize("other", ["notes.txt", "labels.npy", "images/a.jpg", "more.zip"])
def test_other_files_next_to_tables_are_refused(tmp_path, other):
    source = write_files(tmp_path / "in", {"a.csv": ROWS, other: "words"})
    with pytest.raises(InputError, match=r"only tables such as 'a\.csv'.*ignore=") as info:
        convert(source, tmp_path / "out")
    ending = other.rpartition(".")[2]
    assert f"ignore=['*.{ending}']" in str(info.value)
    converted = convert(source, tmp_path / "out", ignore=[f"*.{ending}"])
    counts = converted.manifest.accounting.values()
    assert [sum(c.written for c in counts), sum(c.skipped for c in counts)] == [2, 1]


@pytest.mark.parametrize("other", ["neg/1.jpg", "neg/more.npy", "neg/x.zip"])
def test_other_files_in_folders_of_texts_are_refused(tmp_path, other):
    files = {f"{label}/{n}.txt": f"words {n}" for label in ("pos", "neg") for n in range(4)}
    source = write_files(tmp_path / "in", {**files, other: b"\0"})
    with pytest.raises(InputError, match=r"only text files, got 'neg/.*ignore="):
        convert(source, tmp_path / "out", max_reject_fraction=0.5)
    converted = convert(source, tmp_path / "out", ignore=[f"*.{other.rpartition('.')[2]}"])
    assert sum(c.written for c in converted.manifest.accounting.values()) == 8


def test_tables_of_several_kinds_are_refused(tmp_path, subtests):
    source = write_files(tmp_path / "in", {"a.csv": ROWS, "b.jsonl": '{"text": "x"}'})
    with pytest.raises(InputError, match=r"layout='csv' .*ignore=\['\*\.jsonl'\]"):
        convert(source, tmp_path / "out")
    for cure in ({"layout": "csv"}, {"ignore": ["*.jsonl"]}):
        with subtests.test(cure=cure):
            converted = convert(source, tmp_path / "out", **cure)
            assert sum(c.written for c in converted.manifest.accounting.values()) == 2


def test_datasets_save_to_disk_is_refused_with_a_fix(tmp_path):
    names = ["data-00000-of-00001.arrow", "state.json", "dataset_info.json"]
    source = write_files(tmp_path / "in", dict.fromkeys(names, "{}"))
    with pytest.raises(InputError, match=r"the Arrow file .*datasets\.load_from_disk"):
        convert(source, tmp_path / "out")
