"""`diff` against changes that the test made itself."""

import collections
import json
import random
from unittest import mock

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.app import app
from pipelines.tools.diff import compare as module
from pipelines.tools.diff import compare_datasets

SPLITS = ("train", "eval")


def example(name, value, label=0):
    named = {} if name is None else {"filename": [name.encode()]}
    return {**named, "image": [value.encode() * 50], "label": [label]}


@pytest.fixture
def write(write_dataset, tmp_path):
    numbers = iter(range(10**6))

    def write(splits, shards=2):
        groups = {
            split: [examples[n::shards] for n in range(shards)]
            for split, examples in splits.items()
        }
        return write_dataset(tmp_path / str(next(numbers)), groups, {})

    return write


def test_each_kind_of_change_is_told(write):
    before = write(
        {
            "train": [example(f"{n}", "a") for n in range(6)],
            "eval": [example("moved", "m"), example("both", "x")],
        }
    )
    after = write(
        {
            "train": [
                *(example(f"{n}", "a") for n in range(1, 5)),
                example("5", "a", label=7),
                example("moved", "m"),
                example("both", "y"),
                example("new", "n"),
            ],
            "eval": [],
        },
        shards=3,
    )
    found = compare_datasets(before, after)
    assert found.counts == {"added": 1, "removed": 1, "changed": 2, "moved": 1, "unchanged": 4}
    assert found.features == {"label": 1, "image": 1}
    told = {(change.kind, change.name, tuple(change.features)) for change in found.changes}
    assert told == {
        ("added", "new", ()),
        ("removed", "0", ()),
        ("changed", "5", ("label",)),
        ("changed", "both", ("image",)),
        ("moved", "moved", ()),
    }
    (moved,) = [change for change in found.changes if change.kind == "moved"]
    assert (moved.before.split, moved.after.split) == ("eval", "train")
    assert not found.is_equal


def test_order_and_shards_make_no_difference(write):
    examples = [example(f"{n}", f"{n % 3}") for n in range(40)]
    shuffled = random.Random(1).sample(examples, 40)
    found = compare_datasets(write({"train": examples}), write({"train": shuffled}, shards=5))
    assert found.is_equal
    assert found.counts["unchanged"] == 40


# name, content and split of each record; few of each, so that they meet
RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.sampled_from(SPLITS))
)


@given(RECORDS, RECORDS, st.booleans())
def test_counts_are_those_of_multisets(write_dataset, tmp_path_factory, before, after, are_named):
    folder = tmp_path_factory.mktemp("diff")
    uris = []
    for side, records in (("before", before), ("after", after)):
        groups = {
            split: [[example(n if are_named else None, c) for n, c, s in records if s == split]]
            for split in SPLITS
        }
        uris.append(write_dataset(folder / side, groups, {}))
    found = compare_datasets(*uris, most=1000)
    key = 0 if are_named else 1
    names = [collections.Counter(record[key] for record in side) for side in (before, after)]
    assert found.counts["added"] == sum((names[1] - names[0]).values())
    assert found.counts["removed"] == sum((names[0] - names[1]).values())
    same = collections.Counter(r if are_named else r[1:] for r in before)
    same &= collections.Counter(r if are_named else r[1:] for r in after)
    assert found.counts["unchanged"] == sum(same.values())
    assert sum(found.counts.values()) == sum((names[0] | names[1]).values())
    assert len(found.changes) == sum(found.counts.values()) - found.counts["unchanged"]


def test_many_buckets_give_the_same(write, monkeypatch):
    before = write({"train": [example(f"{n}", f"{n}") for n in range(60)]})
    after = write({"train": [example(f"{n}", f"{n % 55}") for n in range(10, 70)]})
    whole = compare_datasets(before, after).to_json()
    monkeypatch.setattr(module, "_BUCKET_RECORDS", 7)
    assert compare_datasets(before, after).to_json() == whole
    assert whole["counts"] == {
        "added": 10, "removed": 10, "changed": 5, "moved": 0, "unchanged": 45
    }  # fmt: skip


def test_the_first_changes_of_each_kind_are_listed(write):
    before = write({"train": []})
    after = write({"train": [example(f"{n:03d}", "a") for n in range(500)]}, shards=1)
    found = compare_datasets(before, after, most=3)
    assert [change.name for change in found.changes] == ["000", "001", "002"]
    assert found.counts["added"] == 500
    assert "and 497 more" in str(found)


def test_the_command(write):
    uris = [write({"train": [example("a\x1b[31m", value)]}) for value in "xy"]
    text = CliRunner().invoke(app, ["diff", *uris])
    assert text.exit_code == 0
    assert "1 changed" in text.stdout
    assert r"a\x1b[31m" in text.stdout
    assert "\x1b" not in text.stdout
    facts = json.loads(CliRunner().invoke(app, ["diff", *uris, "--json"]).stdout)
    assert facts["changes"][0]["features"] == ["image"]
    assert CliRunner().invoke(app, ["diff", uris[0], "nowhere"]).exit_code == 1


def test_progress_counts_the_records_of_both(datum_photos, write):
    named = write({"train": [example(f"{n}", "a") for n in range(9)]})
    for uris, total in (([datum_photos] * 2, 60), ([named] * 2, 18), ([named, datum_photos], 39)):
        told = mock.Mock()
        compare_datasets(*uris, advance=told)
        assert sum(call.args[0] for call in told.call_args_list) == total
        assert {call.args[1] for call in told.call_args_list} == {total}


def test_shards_that_are_the_same_are_not_read(write_dataset, tmp_path):
    # Of one feature, since protobuf writes several in any order.
    names = [[{"filename": [b"%d" % n]} for n in range(m, m + 9)] for m in (0, 9, 18)]
    shards = [names[0], [example(f"{n}", "a") for n in range(9, 18)], names[2]]
    changed = [*shards[1][1:], example("9", "b")]
    before = write_dataset(tmp_path / "a", {"train": shards}, {})
    after = write_dataset(tmp_path / "b", {"train": [shards[2], changed, shards[0]]}, {})
    whole = compare_datasets(before, after)
    assert whole.counts == {"added": 0, "removed": 0, "changed": 1, "moved": 0, "unchanged": 26}
    for place in (tmp_path / "a/Split-train", tmp_path / "b/Split-train"):
        kept = sorted(place.iterdir())[2]
        kept.write_bytes(bytes(kept.stat().st_size))
    assert compare_datasets(before, after) == whole
