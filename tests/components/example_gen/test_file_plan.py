"""Splits, vocabularies and shards as a pure function of the listing."""

import collections
import hashlib

import pytest

from components.common.listing import Blob, Column, Entry, ExcludedInput, Listing, join_listings
from components.example_gen.file_plan import plan_shards
from components.example_gen.partition import Partition
from components.image_example_gen.settings import ImageSettings
from trainer_utils.format import ConfigError, InputError

LABEL = Column("label", "label")


def listing(labels: list, *, splits: dict[int, str] | None = None, **columns: list) -> Listing:
    """Entries `0.jpg`, `1.jpg` and so on, of 1,000 bytes each."""
    entries = tuple(
        Entry(
            f"{number}.jpg",
            (splits or {}).get(number),
            (Blob(f"{number}.jpg", 1000),),
            (label, *(values[number] for values in columns.values())),
        )
        for number, label in enumerate(labels)
    )
    return Listing(entries, columns=(LABEL, *(Column(name, "string") for name in columns)))


def plan(given: Listing, partition: Partition | None = None, **settings: object):
    return plan_shards(given, partition=partition, settings=ImageSettings(**settings))


def splits_of(made) -> dict[str, str]:
    return {entry.name: task.split for task in made.tasks for entry in task.entries}


def test_labels_become_places_in_the_sorted_vocabulary():
    made = plan(listing(["dog", "ant", "cat", "dog"]))
    ids = {e.name: e.values[0] for task in made.tasks for e in task.entries}
    assert made.vocabularies == {"label": ("ant", "cat", "dog")}
    assert ids == {"0.jpg": 2, "1.jpg": 0, "2.jpg": 1, "3.jpg": 2}


def test_lists_of_labels_become_lists_of_ids():
    entries = (Entry("a", None, (Blob("a", 1),), (("dog", "ant"),)), Entry("b", None, (), ((),)))
    entries = (entries[0], entries[1]._replace(blobs=(Blob("b", 1),)))
    made = plan(Listing(entries, columns=(Column("labels", "label", is_list=True),)))
    ids = {e.name: e.values[0] for task in made.tasks for e in task.entries}
    assert ids == {"a": (1, 0), "b": ()}


def test_a_given_vocabulary_keeps_its_order_and_rejects_what_it_lacks():
    made = plan(listing(["dog", "emu", "cat"]), vocabulary=["dog", "cat", "never seen"])
    ids = {e.name: e.values[0] for task in made.tasks for e in task.entries}
    assert ids == {"0.jpg": 0, "2.jpg": 1}
    assert made.vocabularies == {"label": ("dog", "cat", "never seen")}
    ((code, source, detail),) = [(r.code, r.source, r.detail) for r in made.rejects]
    assert (code, source) == ("UNKNOWN_LABEL", "1.jpg")
    assert "'emu'" in detail


def test_a_vocabulary_of_no_feature_is_refused():
    with pytest.raises(ConfigError, match=r"vocabulary\['colour'\].*label"):
        plan(listing(["a"]), vocabulary={"colour": ["red"]})


@pytest.mark.parametrize("label", ["two\nlines", "carriage\rreturn", "not utf-8 \udce9"])
def test_a_label_that_no_line_can_hold_is_refused(label):
    with pytest.raises(InputError, match="label"):
        plan(listing([label]))


def test_what_is_grouped_shares_a_split():
    patients = [f"patient {number % 40}" for number in range(400)]
    made = splits_of(plan(listing(["x"] * 400, patient=patients), group_by="patient"))
    by_patient = collections.defaultdict(set)
    for number, patient in enumerate(patients):
        by_patient[patient].add(made[f"{number}.jpg"])
    assert all(len(splits) == 1 for splits in by_patient.values())
    assert set.union(*by_patient.values()) == {"train", "eval"}


@pytest.mark.parametrize("shares", [(2, 1), (8, 1, 1), (1, 1)])
def test_stratified_splits_keep_each_class_in_its_share_to_within_one(shares):
    labels = ["rare"] * 10 + ["common"] * 1000 + ["some"] * 100
    names = ("train", "eval", "test")[: len(shares)]
    partition = Partition(tuple(zip(names, shares, strict=True)))
    made = splits_of(plan(listing(labels), partition, stratify=True))
    for label in set(labels):
        numbers = [number for number, other in enumerate(labels) if other == label]
        counts = collections.Counter(made[f"{number}.jpg"] for number in numbers)
        for name, share in partition.buckets:
            assert abs(counts[name] - len(numbers) * share / sum(shares)) <= 1


def test_stratified_remainders_of_many_classes_even_out():
    labels = [f"class {number // 2}" for number in range(2000)]
    counts = collections.Counter(splits_of(plan(listing(labels), stratify=True)).values())
    # Two thirds of 2,000; a class of two gives one or two, standard deviation 15.
    assert abs(counts["train"] - 1333) < 75


def test_another_seed_stratifies_in_another_way():
    given = listing(["a"] * 50 + ["b"] * 50)
    first, second = (splits_of(plan(given, stratify=True, seed=seed)) for seed in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"group_by": "hospital"}, ["group_by", "filename, label", "'hospital'"]),
        ({"group_by": "label", "stratify": True}, ["stratify", "'label'"]),
    ],
)
def test_a_setting_that_the_inputs_cannot_follow_is_named(settings, words):
    with pytest.raises(ConfigError) as caught:
        plan(listing(["a"]), **settings)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("settings", [{"group_by": "label"}, {"stratify": True}])
def test_splits_of_the_inputs_leave_nothing_to_a_setting(settings):
    (name,) = settings
    with pytest.raises(ConfigError, match=f"{name}.*train"):
        plan(listing(["a", "b"], splits={0: "train", 1: "train"}), **settings)


def test_stratifying_needs_labels():
    with pytest.raises(ConfigError, match="stratify"):
        plan(Listing((Entry("a", None, (Blob("a", 1),)),)), stratify=True)


def test_the_split_is_the_keyed_hash_of_the_name():
    made = splits_of(plan(listing(["x"] * 30), seed=5))
    for name, split in made.items():
        digest = hashlib.blake2b(
            name.encode(), digest_size=16, key=(5).to_bytes(8, "little"), person=b"split"
        ).digest()
        assert split == ("train" if int.from_bytes(digest, "little") % 3 < 2 else "eval")


def test_rows_of_a_table_stay_in_their_order():
    rows = tuple(
        Entry(f"t/{n}", "train", (Blob("t", 10, row=n, column="image"),)) for n in range(50)
    )
    (task,) = plan(Listing(rows[::-1])).tasks
    assert [entry.blobs[0].row for entry in task.entries] == list(range(50))


def test_listings_join_with_missing_values_for_the_columns_of_others():
    one = Listing((Entry("a", "x", (), ("cat",)),), (ExcludedInput("b", "x", None, ""),), (LABEL,))
    two = Listing((Entry("c", "y", ()),))
    joined = join_listings([one, two])
    assert [entry.values for entry in joined.entries] == [("cat",), (None,)]
    assert joined.found == 3


def test_listings_with_other_kinds_of_one_column_do_not_join():
    one = Listing((), (), (LABEL,))
    with pytest.raises(InputError, match=r"label \(label\) and image, label \(int\)"):
        join_listings([one, Listing((), (), (Column("label", "int"),))])
