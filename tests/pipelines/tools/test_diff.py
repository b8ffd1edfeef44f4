"""`diff` finds the changes that a test makes."""

import collections
import dataclasses
import json
import shutil
from pathlib import Path

import google_crc32c
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import trainer_utils
from pipelines.cli.app import app
from pipelines.tools.diff import compare_datasets
from trainer_utils.format import Manifest, RecordIndex
from trainer_utils.format.naming import MANIFEST_FILE, index_file

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


def test_each_kind_of_change_is_reported(write):
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


# name, content and split of each record; few of each, so that there are matches
RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.sampled_from(SPLITS))
)


@given(RECORDS, RECORDS, st.booleans())
def test_counts_equal_multiset_differences(
    write_dataset, tmp_path_factory, before, after, are_named
):
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


def test_diff_command_prints_text_and_json(write):
    uris = [write({"train": [example("a\x1b[31m", value)]}) for value in "xy"]
    text = CliRunner().invoke(app, ["diff", *uris])
    assert text.exit_code == 0
    assert "1 changed" in text.stdout
    assert r"a\x1b[31m" in text.stdout
    assert "\x1b" not in text.stdout
    facts = json.loads(CliRunner().invoke(app, ["diff", *uris, "--json"]).stdout)
    assert facts["changes"][0]["features"] == ["image"]
    assert CliRunner().invoke(app, ["diff", uris[0], "nowhere"]).exit_code == 1


def write_with_index(uri, records, shards, *, gzip=False):
    """Write a dataset with an index of names and checksums."""
    settings = {"num_shards": shards, "compression": "gzip" if gzip else "none"}
    with trainer_utils.DatasetWriter(uri, **settings) as writer:
        for name, content, split in records:
            features = {} if name is None else {"filename": name}
            writer.write(split, {**features, "text": content * 50, "label": 3})
    return uri


def without_names(uri, to):
    """Copy a dataset without the names in its index, like one of an earlier version."""
    shutil.copytree(uri, to)
    path = Path(to) / MANIFEST_FILE
    manifest, shards = Manifest.from_json(path.read_text(), path="x"), []
    for shard in manifest.shards:
        index = Path(to) / index_file(shard.path)
        lengths = RecordIndex.from_bytes(index.read_bytes(), path="x").lengths
        index.write_bytes(RecordIndex(lengths).to_bytes())
        shards.append(shard._replace(index_crc32c=google_crc32c.value(index.read_bytes())))
    path.write_text(dataclasses.replace(manifest, shards=tuple(shards), format_version=2).to_json())
    return str(to)


def facts(difference):
    return {**difference.to_json(), "before": "", "after": ""}


NAMED = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]), st.sampled_from("xyz"), st.sampled_from(SPLITS)
    ),
    min_size=1,
)


@given(NAMED, NAMED, st.integers(1, 3), st.booleans())
@settings(max_examples=25)
def test_index_and_records_give_the_same_difference(tmp_path_factory, before, after, shards, gzip):
    folder = tmp_path_factory.mktemp("indexed")
    news, olds = [], []
    for side, records in (("before", before), ("after", after)):
        uri = write_with_index(str(folder / side), records, shards, gzip=gzip)
        news.append(uri)
        olds.append(without_names(uri, folder / f"{side}-older"))
    expected = facts(compare_datasets(*olds))
    for uris in (news, (news[0], olds[1]), (olds[0], news[1])):
        assert facts(compare_datasets(*uris)) == expected
