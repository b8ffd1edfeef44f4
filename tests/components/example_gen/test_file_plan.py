"""Test that keyed hashes decide the split and order of files, also by group and by class."""

import collections
import hashlib

import pytest

from components.example_gen.file_plan import plan_shards
from components.example_gen.settings import ImageSettings
from components.example_gen.split_rules import Partition
from components.inputs.input_table import Blob, Column, Entry, InputTable
from trainer_utils.core.errors import ConfigError

NAMES = [f"{number}.jpg" for number in range(200)]
LISTS_OF_LABELS = (Column("labels", "label", is_list=True),)


def entry(name: str, *values: object, split: str | None = None) -> Entry:
    return Entry(name, split, (Blob(name, 1000),), values)


def listing(labels: list, *, splits: dict[int, str] | None = None, **columns: list) -> InputTable:
    """Return a table of the entries `0.jpg`, `1.jpg` and so on."""
    entries = [
        entry(f"{n}.jpg", label, *(of[n] for of in columns.values()), split=(splits or {}).get(n))
        for n, label in enumerate(labels)
    ]
    strings = (Column(name, "string") for name in columns)
    return InputTable.of(entries, columns=(Column("label", "label"), *strings))


def plan(given: InputTable, partition: Partition | None = None, **settings: object):
    return plan_shards(given, partition=partition, settings=ImageSettings(**settings))


def entries_of(made) -> dict[str, list[Entry]]:
    """Return the entries of each split, in order."""
    found = collections.defaultdict(list)
    for task in made.tasks:
        found[task.argument.name.split] += task.argument.entries
    return found


def hash_of(identity: str, purpose: str, *, seed: int) -> int:
    """Compute a keyed hash of 128 bits with the standard library only."""
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
def test_hashes_of_the_name_decide_split_and_order(seed, shares):
    names = ("train", "eval", "test")[: len(shares)]
    made = plan(
        listing(["cat"] * 200),
        Partition(tuple(zip(names, shares, strict=True))),
        seed=seed,
        target_shard_bytes=20_000,
    )
    expected = {name: [] for name in names}
    for name in sorted(NAMES, key=lambda name: hash_of(name, "order", seed=seed)):
        bucket = hash_of(name, "split", seed=seed) % sum(shares)
        place = next(n for n in range(len(shares)) if bucket < sum(shares[: n + 1]))
        expected[names[place]].append(name)
    found = entries_of(made)
    assert {name: [entry.name for entry in found[name]] for name in names} == expected


def test_equal_values_of_a_column_share_the_split_of_their_hash():
    owners = [f"p{number % 9}" for number in range(200)]
    made = plan(listing(["cat"] * 200, owner=owners), group_by="owner", seed=3)
    found = entries_of(made)
    for split, entries in found.items():
        for entry in entries:
            is_train = hash_of(entry.values[1], "split", seed=3) % 3 < 2
            assert split == ("train" if is_train else "eval")
    assert len({entry.values[1] for entry in found["train"]}) > 1


def test_named_split_receives_only_the_files_that_name_it():
    made = plan(listing(["cat"] * 50, splits={number: "mine" for number in range(0, 50, 2)}))
    by_split = {split: {e.name for e in entries} for split, entries in entries_of(made).items()}
    assert by_split["mine"] == {f"{number}.jpg" for number in range(0, 50, 2)}
    assert by_split["train"] | by_split["eval"] == {f"{n}.jpg" for n in range(1, 50, 2)}
    assert made.splits == ("train", "eval", "mine")


def test_missing_label_list_differs_from_an_empty_one():
    entries = [entry("a", None), entry("b", ("dog", "ant")), entry("c", ())]
    made = plan(InputTable.of(entries, columns=LISTS_OF_LABELS))
    found = [one for entries in entries_of(made).values() for one in entries]
    assert {one.name: one.values[0] for one in found} == {"a": None, "b": (1, 0), "c": ()}
    assert made.unread() == []


def test_label_list_with_an_unknown_label_is_rejected():
    entries = [entry("a", ("dog", "emu")), entry("b", ("dog",))]
    given = InputTable.of(entries, columns=LISTS_OF_LABELS)
    made = plan(given, vocabulary={"labels": ["dog"]})
    assert [(reject.source, reject.code) for reject in made.rejects] == [("a", "UNKNOWN_LABEL")]
    assert "'emu'" in made.rejects[0].detail
    assert [entry.name for entry in made.unread()] == ["a"]


@pytest.mark.parametrize("shares", [(2, 1), (8, 1, 1)])
def test_stratified_splits_keep_class_shares_to_within_one(shares):
    labels = ["rare"] * 10 + ["common"] * 1000 + ["some"] * 100
    partition = Partition(tuple(zip(("train", "eval", "test"), shares, strict=False)))
    made = plan(listing(labels), partition, stratify=True)
    ids = dict(enumerate(made.vocabularies["label"]))
    for name, share in partition.buckets:
        counts = collections.Counter(ids[e.values[0]] for e in entries_of(made)[name])
        for label in set(labels):
            assert abs(counts[label] - labels.count(label) * share / sum(shares)) <= 1


def test_setting_that_does_not_fit_the_inputs_raises(subtests):
    by_folder = listing(["a", "b"], splits={0: "train", 1: "train"})
    for given, settings in (
        (listing(["a"]), {"group_by": "hospital"}),
        (listing(["a"]), {"stratify": True, "group_by": "label"}),
        (by_folder, {"group_by": "label"}),  # whose folders already decide the split
        (by_folder, {"stratify": True}),
    ):
        with subtests.test(given=given):
            with pytest.raises(ConfigError) as caught:
                plan(given, **settings)
            assert caught.value.setting == next(iter(settings))
