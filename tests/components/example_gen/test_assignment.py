"""The split and order of files are those of their keyed hashes."""

import collections
import hashlib

import pytest

from components.common.entry import Column, Entry
from components.common.input_table import InputTable
from components.example_gen.plan import Partition
from tests.components.example_gen.listings import listing, plan

NAMES = [f"{number}.jpg" for number in range(200)]


def hash_of(identity: str, purpose: str, *, seed: int) -> int:
    """Of 128 bits, by the standard library alone."""
    key = seed.to_bytes(8, "little", signed=True)
    digest = hashlib.blake2b(
        identity.encode("utf-8", "surrogateescape"),
        digest_size=16,
        key=key,
        person=purpose.encode(),
    )
    return int.from_bytes(digest.digest(), "little")


@pytest.mark.parametrize(
    ("seed", "shares"), [(0, (2, 1)), (-7, (1, 1)), (2**63 - 1, (2**31 - 1, 2**31 - 1, 5))]
)
def test_a_file_is_in_the_split_of_its_hash_and_at_the_place_of_another(seed, shares):
    names = ("train", "eval", "test")[: len(shares)]
    made = plan(
        listing(["cat"] * 200),
        Partition(tuple(zip(names, shares, strict=True))),
        seed=seed,
        target_shard_bytes=20_000,
    )
    expected = collections.defaultdict(list)
    for name in sorted(NAMES, key=lambda name: hash_of(name, "order", seed=seed)):
        bucket = hash_of(name, "split", seed=seed) % sum(shares)
        place = next(n for n in range(len(shares)) if bucket < sum(shares[: n + 1]))
        expected[names[place]].append(name)
    found = collections.defaultdict(list)
    for task in made.tasks:
        found[task.argument.name.split] += [entry.name for entry in task.argument.entries]
    assert dict(found) == {name: expected[name] for name in names}


def test_equal_values_of_a_column_share_the_split_of_their_hash():
    owners = [f"p{number % 9}" for number in range(200)]
    made = plan(listing(["cat"] * 200, owner=owners), group_by="owner", seed=3)
    for task in made.tasks:
        for entry in task.argument.entries:
            is_train = hash_of(entry.values[1], "split", seed=3) % 3 < 2
            assert task.argument.name.split == ("train" if is_train else "eval")


def test_a_split_that_some_name_takes_no_others_but_by_hash():
    made = plan(listing(["cat"] * 50, splits={number: "mine" for number in range(0, 50, 2)}))
    by_split = {
        task.argument.name.split: {entry.name for entry in task.argument.entries}
        for task in made.tasks
    }
    assert by_split["mine"] == {f"{number}.jpg" for number in range(0, 50, 2)}
    assert by_split["train"] | by_split["eval"] == {f"{n}.jpg" for n in range(1, 50, 2)}
    assert made.splits == ("train", "eval", "mine")


def test_lists_of_labels_keep_none_apart_from_no_labels():
    entries = [
        Entry("a", None, listing(["x"]).entries[0].blobs, (None,)),
        Entry("b", None, listing(["x"]).entries[0].blobs, (("dog", "ant"),)),
        Entry("c", None, listing(["x"]).entries[0].blobs, ((),)),
    ]
    made = plan(InputTable.of(entries, columns=(Column("labels", "label", is_list=True),)))
    ids = {entry.name: entry.values[0] for task in made.tasks for entry in task.argument.entries}
    assert ids == {"a": None, "b": (1, 0), "c": ()}
    assert made.unread() == []


def test_a_list_with_one_unknown_label_is_rejected_for_it():
    entries = [
        Entry(name, None, listing(["x"]).entries[0].blobs, (labels,))
        for name, labels in {"a": ("dog", "emu"), "b": ("dog",)}.items()
    ]
    made = plan(
        InputTable.of(entries, columns=(Column("labels", "label", is_list=True),)),
        vocabulary={"labels": ["dog"]},
    )
    assert [(reject.source, reject.code) for reject in made.rejects] == [("a", "UNKNOWN_LABEL")]
    assert "'emu'" in made.rejects[0].detail
    assert [entry.name for entry in made.unread()] == ["a"]
