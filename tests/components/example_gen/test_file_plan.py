"""Splits, vocabularies and shards as a pure function of the listing."""

import pytest

from components.common.entry import Blob, Column, Entry
from components.common.input_table import InputTable
from tests.components.example_gen.listings import listing, plan
from trainer_utils.format import ConfigError, InputError


def test_labels_become_places_in_the_sorted_vocabulary():
    made = plan(listing(["dog", "ant", "cat", "dog"]))
    ids = {e.name: e.values[0] for task in made.tasks for e in task.argument.entries}
    assert made.vocabularies == {"label": ("ant", "cat", "dog")}
    assert ids == {"0.jpg": 2, "1.jpg": 0, "2.jpg": 1, "3.jpg": 2}


def test_lists_of_labels_become_lists_of_ids():
    entries = (Entry("a", None, (Blob("a", 1),), (("dog", "ant"),)), Entry("b", None, (), ((),)))
    entries = (entries[0], entries[1]._replace(blobs=(Blob("b", 1),)))
    made = plan(InputTable.of(entries, columns=(Column("labels", "label", is_list=True),)))
    ids = {e.name: e.values[0] for task in made.tasks for e in task.argument.entries}
    assert ids == {"a": (1, 0), "b": ()}


def test_a_given_vocabulary_keeps_its_order_and_rejects_what_it_lacks():
    made = plan(listing(["dog", "emu", "cat"]), vocabulary=["dog", "cat", "never seen"])
    ids = {e.name: e.values[0] for task in made.tasks for e in task.argument.entries}
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


def test_rows_of_a_table_stay_in_their_order():
    rows = tuple(
        Entry(f"t/{n}", "train", (Blob("t", 10, row=n, column="image"),)) for n in range(50)
    )
    (task,) = plan(InputTable.of(rows[::-1])).tasks
    assert [entry.blobs[0].row for entry in task.argument.entries] == list(range(50))
