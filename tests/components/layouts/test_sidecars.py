"""Columns made of the files that lie beside the images of an archive."""

import re

import pytest

from components.common.entry import Column
from tests.components.layouts.archives import write_tar

COLUMNS = {
    "ints": ({"a.cls": " 3\n", "b.cls": "-4"}, [Column("label", "int")], [(3,), (-4,)]),
    "words": ({"a.cls": "cat", "b.cls": "4"}, [Column("label", "label")], [("cat",), ("4",)]),
    "one without": ({"a.cls": "3"}, [Column("label", "int")], [(3,), (None,)]),
    "an empty one": ({"a.cls": "3", "b.cls": ""}, [Column("label", "int")], [(3,), (None,)]),
    "text stays text": (
        {"a.txt": "3", "b.txt": "\ufeffé\n"},
        [Column("text", "string")],
        [("3",), ("é\n",)],
    ),
    "ints and floats": (
        {"a.json": '{"x": 1}', "b.json": '{"x": 0.5}'},
        [Column("x", "float")],
        [(1.0,), (0.5,)],
    ),
    "ints and texts": (
        {"a.json": '{"x": 1}', "b.json": '{"x": "b"}'},
        [Column("x", "string")],
        [("1",), ("b",)],
    ),
    "booleans": (
        {"a.json": '{"x": true}', "b.json": '{"x": false}'},
        [Column("x", "int")],
        [(1,), (0,)],
    ),
    "null": (
        {"a.json": '{"x": null}', "b.json": '{"x": 2}'},
        [Column("x", "int")],
        [(None,), (2,)],
    ),
    "nested": ({"a.json": '{"x": {"y": {"z": 1}}}'}, [Column("x.y.z", "int")], [(1,), (None,)]),
    "lists": (
        {"a.json": '{"x": [1, 2]}', "b.json": '{"x": []}'},
        [Column("x", "int", is_list=True)],
        [((1, 2),), ((),)],
    ),
    "vectors": (
        {"a.json": '{"x": [1, 2]}', "b.json": '{"x": [3, 4.5]}'},
        [Column("x", "float", is_list=True, length=2)],
        [((1.0, 2.0),), ((3.0, 4.5),)],
    ),
    "label in the JSON alone": (
        {"a.json": '{"label": "cat"}'},
        [Column("label", "label")],
        [("cat",), (None,)],
    ),
    "label twice": (
        {"a.cls": "3", "a.json": '{"label": "cat", "n": 1}', "b.json": '{"n": 2}'},
        [Column("json.label", "string"), Column("n", "int"), Column("label", "int")],
        [("cat", 1, 3), (None, 2, None)],
    ),
    "of a key without image": (
        {"a.cls": "3", "c.cls": "cat", "c.json": '{"x": 1}'},
        [Column("label", "int")],
        [(3,), (None,)],
    ),
    "none": ({}, [], [(), ()]),
}


@pytest.mark.parametrize(("files", "columns", "rows"), COLUMNS.values(), ids=COLUMNS)
def test_sidecars_make_columns_typed_by_all_examples(tmp_path, read, files, columns, rows):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "b.jpg": b"y", **files})
    listing = read(tmp_path)
    assert list(listing.columns) == columns
    assert [entry.values for entry in listing.entries] == rows


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('{"x": 1' + "0" * 5000 + "}", "x.tar/a.json': expected json"),
        ('{"x": "\\ud800"}', "x.tar/a.json': expected json in UTF-8"),
        ('{"x": ' * 990 + "1" + "}" * 990, "x.tar/a.json': expected json"),
        ("[" * 100_000, "x.tar/a.json': expected json"),
        ('"text"', "x.tar/a.json': expected json.* got str"),
    ],
    ids=["5,001 digits", "half a character", "deep", "without end", "no object"],
)
def test_a_hostile_json_is_rejected_by_name(tmp_path, read, content, match):
    write_tar(tmp_path / "x.tar", {"a.jpg": b"x", "a.json": content})
    (left,) = read(tmp_path).excluded
    assert re.search(match, left.detail)
