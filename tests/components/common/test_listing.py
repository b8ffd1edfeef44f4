"""Listings that join, and those that do not."""

import pytest

from components.common.entry import Column, Entry, ExcludedInput
from components.common.input_table import InputTable, join_inputs
from tests.components.example_gen.listings import LABEL
from trainer_utils.format import InputError


def test_listings_join_with_missing_values_for_the_columns_of_others():
    left = (ExcludedInput("b", "x", None, ""),)
    one = InputTable.of([Entry("a", "x", (), ("cat",))], left, (LABEL,), blobs=())
    two = InputTable.of([Entry("c", "y", ())], blobs=())
    joined = join_inputs([one, two])
    assert [entry.values for entry in joined.entries] == [("cat",), (None,)]
    assert joined.found == 3


def test_listings_with_other_kinds_of_one_column_do_not_join():
    one = InputTable.of((), (), (LABEL,))
    with pytest.raises(InputError, match=r"label \(label\) and image, label \(int\)"):
        join_inputs([one, InputTable.of((), (), (Column("label", "int"),))])
