"""The lineage that a step records: its settings and its inputs."""

from pathlib import Path

from components.runtime.lineage import make_origin
from trainer_utils.dataset import open_dataset
from trainer_utils.format.naming import LINEAGE_FILE


def test_settings_are_plain_and_without_passwords(subtests):
    for value, written in (
        (0.5, 0.5),
        ('{"train": 8}', {"train": 8}),
        ("[1, 2", "[1, 2"),
        ("b\udcff.csv", "b\\xff.csv"),
        ('["a\\udcffb"]', ["a\\xffb"]),
        ("s3://key:secret@host/b", "s3://key@host/b"),
        (["x://u:secret@h"], ["x://u@h"]),
        (Path("a"), "a"),
        ({"b": 1, "a": {"d": 2, "c": 3}}, {"a": {"c": 3, "d": 2}, "b": 1}),
    ):
        with subtests.test(value=value):
            given = {"setting": value, "unset": None, "empty": "", "__own__": 1}
            origin = make_origin("Gen", given, output="examples")
            assert origin.made_by.settings == {"setting": written}
            assert b"secret" not in origin.to_json().encode()


def test_lineage_lists_each_ancestor_once(tmp_path, write_dataset):
    rows = [[{"label": [1]}]]
    raw, others = (
        open_dataset(write_dataset(tmp_path / name, {"train": rows * count}, {}))
        for name, count in (("raw", 1), ("others", 2))
    )
    first = make_origin("Gen", {"input_base": "photos/"}, output="examples")
    (tmp_path / "raw" / LINEAGE_FILE).write_text(first.to_json())
    write_dataset(tmp_path / "second", {"train": rows * 3}, {})
    second = make_origin("One", {}, output="out", inputs={"examples": [raw, others]})
    (tmp_path / "second" / LINEAGE_FILE).write_text(second.to_json())
    given = [open_dataset(str(tmp_path / "second")), raw]
    third = make_origin("Two", {"seed": 1}, output="out", inputs={"examples": given})
    digests = [each.digest for each in (raw, others, given[0])]
    assert [each.digest for each in third.ancestors] == digests
    assert [each.made_by and each.made_by.component for each in third.ancestors] == [
        "Gen",
        None,
        "One",
    ]
    assert third.ancestors[0].made_by.settings == {"input_base": "photos/"}
    assert [each.digest for each in third.made_by.inputs] == [digests[2], digests[0]]
    assert third.ancestors[1].summary.num_shards == {"train": 2}
