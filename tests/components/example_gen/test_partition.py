"""Splits of files: by group, by class and by hash."""

import collections

import pytest

from components.example_gen.plan import Partition
from tests.components.example_gen.listings import listing, plan
from trainer_utils.format import ConfigError


def splits_of(made) -> dict[str, str]:
    return {
        entry.name: task.argument.name.split
        for task in made.tasks
        for entry in task.argument.entries
    }


def test_what_is_grouped_shares_a_split():
    patients = [f"patient {number % 40}" for number in range(400)]
    made = splits_of(plan(listing(["x"] * 400, patient=patients), group_by="patient"))
    by_patient = collections.defaultdict(set)
    for number, patient in enumerate(patients):
        by_patient[patient].add(made[f"{number}.jpg"])
    assert all(len(splits) == 1 for splits in by_patient.values())
    assert set.union(*by_patient.values()) == {"train", "eval"}


@pytest.mark.parametrize("shares", [(2, 1), (8, 1, 1)])
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


def test_a_setting_that_the_inputs_cannot_follow_is_named():
    by_folder = listing(["a", "b"], splits={0: "train", 1: "train"})
    for given, settings in (
        (listing(["a"]), {"group_by": "hospital"}),
        (listing(["a"]), {"stratify": True, "group_by": "label"}),
        (by_folder, {"group_by": "label"}),  # which leave nothing to a setting
        (by_folder, {"stratify": True}),
    ):
        with pytest.raises(ConfigError) as caught:
            plan(given, **settings)
        assert caught.value.setting == next(iter(settings))
