"""Listings that join, and those that do not."""

import pytest

from components.common.entry import Column, Entry, ExcludedInput
from components.common.listing import Listing, join_listings
from tests.components.example_gen.listings import LABEL
from trainer_utils.format import InputError


def test_listings_join_with_missing_values_for_the_columns_of_others():
    left = (ExcludedInput("b", "x", None, ""),)
    one = Listing.of([Entry("a", "x", (), ("cat",))], left, (LABEL,), blobs=())
    two = Listing.of([Entry("c", "y", ())], blobs=())
    joined = join_listings([one, two])
    assert [entry.values for entry in joined.entries] == [("cat",), (None,)]
    assert joined.found == 3


def test_listings_with_other_kinds_of_one_column_do_not_join():
    one = Listing.of((), (), (LABEL,))
    with pytest.raises(InputError, match=r"label \(label\) and image, label \(int\)"):
        join_listings([one, Listing.of((), (), (Column("label", "int"),))])
