"""Class names in Parquet files of the Hugging Face Hub."""

import json
from typing import Any

import pyarrow as pa
import pytest

from components.tables.hub import class_names
from tests.components.plain_runs import convert, read_records, write_files
from tests.components.tables.table_files import parquet_of
from trainer_utils.core.errors import InputError

# From `datasets` 3.6: datasets.Features(...).to_dict() in schema.metadata["huggingface"].
FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    "tags": {"feature": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "_type": "Sequence"},
    "old": [{"names": ["x", "y"], "_type": "ClassLabel"}],
    "meta": {"kind": {"names": ["k", "l"], "_type": "ClassLabel"}},
}


def hub_parquet(features: dict[str, Any], **columns: Any) -> bytes:
    table = pa.table(columns)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return parquet_of({}, table=table.replace_schema_metadata(metadata))


def labelled(*labels: int | None, names: tuple[str, ...] = ("neg", "pos")) -> bytes:
    features = {"label": {"names": list(names), "_type": "ClassLabel"}}
    texts = [f"text {number}" for number in range(len(labels))]
    return hub_parquet(features, text=texts, label=pa.array(labels, pa.int64()))


def test_class_names_are_found_in_every_form():
    metadata = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}
    assert class_names(metadata) == {
        "label": ("neg", "pos"),
        "tags": ("a", "b", "c"),
        "old": ("x", "y"),
        "meta.kind": ("k", "l"),
    }


@pytest.mark.parametrize("value", [b"", b"nope", b"[]", b"{}", b'{"info": {"features": null}}'])
def test_unknown_metadata_gives_no_class_names(value):
    assert class_names({b"huggingface": value}) == {}
    assert class_names(None) == {}


def test_class_names_become_the_vocabulary(tmp_path):
    source = write_files(tmp_path / "in", {"train.parquet": labelled(1, 1, 0)})
    converted = convert(source, tmp_path / "out")
    assert converted.vocabularies == {"label": ("neg", "pos")}
    records = read_records(tmp_path / "out", converted)["train"]
    assert [record["label"] for record in records] == [[1], [1], [0]]


def test_names_that_no_row_has_keep_their_ids(tmp_path):
    data = labelled(2, 2, names=("a", "b", "c"))
    converted = convert(write_files(tmp_path / "in", {"train.parquet": data}), tmp_path / "out")
    assert converted.vocabularies == {"label": ("a", "b", "c")}
    records = read_records(tmp_path / "out", converted)["train"]
    assert [record["label"] for record in records] == [[2], [2]]


def test_a_split_without_labels_is_kept_without_them(tmp_path):
    files = {"train.parquet": labelled(0, 1), "test.parquet": labelled(-1, -1)}
    converted = convert(write_files(tmp_path / "in", files), tmp_path / "out")
    records = read_records(tmp_path / "out", converted)
    assert [record["text"] for record in records["test"]] == [[b"text 0"], [b"text 1"]]
    assert all("label" not in record for record in records["test"])
    assert [record["label"] for record in records["train"]] == [[0], [1]]


def test_missing_label_in_a_labelled_split_is_a_reject(tmp_path):
    files = {"train.parquet": labelled(0, -1, None, 1)}
    source = write_files(tmp_path / "in", files)
    converted = convert(source, tmp_path / "out", max_reject_fraction=0.5)
    rejects = (tmp_path / "out/rejects.jsonl").read_text().splitlines()
    assert [(r["source"], r["code"]) for r in map(json.loads, rejects)] == [
        ("train.parquet:2", "NO_LABEL"),
        ("train.parquet:3", "NO_LABEL"),
    ]
    records = read_records(tmp_path / "out", converted)["train"]
    assert [record["label"] for record in records] == [[0], [1]]


def test_lists_of_classes_become_lists_of_ids(tmp_path):
    tags = [[0, 2], [1], []]
    data = hub_parquet({"tags": FEATURES["tags"]}, text=["x", "y", "z"], tags=tags)
    converted = convert(write_files(tmp_path / "in", {"train.parquet": data}), tmp_path / "out")
    assert converted.vocabularies == {"tags": ("a", "b", "c")}
    records = read_records(tmp_path / "out", converted)["train"]
    assert [record.get("tags", []) for record in records] == tags


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"train.parquet": labelled(0, 2)}, "number of one of the 2 classes .* got 2"),
        ({"train.parquet": labelled(0, -3)}, "number of one of the 2 classes .* got -3"),
        (
            {"train.parquet": labelled(0), "test.parquet": labelled(0, names=("pos", "neg"))},
            "names of classes of column 'label' .* got pos, neg|got neg, pos",
        ),
    ],
)
def test_class_names_that_do_not_fit_raise_with_a_fix(tmp_path, files, problem):
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match=problem) as info:
        convert(source, tmp_path / "out")
    assert "columns={'label': 'int'}" in str(info.value)
    convert(source, tmp_path / "out", columns={"label": "int"})
