"""Compute the identity of a dataset by its inputs: see `trainer_utils.format.input_listing`."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.file_plan import FilePlan
from components.example_gen.input_selection import LocatedInputs, fingerprint
from components.inputs.arrow_columns import (
    array_of,
    bounds_and_bytes,
    int_array,
    int_scalar,
    string_scalar,
)
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format.input_listing import InputListing, order_digest, settings_digest
from trainer_utils.storage import is_remote


def listing_of(plan: FilePlan, located: LocatedInputs, config: JsonObject) -> InputListing:
    """Return the listing of the dataset that a conversion writes if it rejects nothing.

    Args:
        plan: the plan of a conversion, not of an update.
        located: the listed inputs.
        config: the settings of the conversion after planning, as for a manifest.
    """
    names = array_of(plan.rows, "name")
    places_of = plan.places
    return InputListing(
        fingerprint=fingerprint(located),
        settings=settings_digest(config, plan.vocabularies),
        orders={
            split: order_digest(_bytes_of(pc.take(names, int_array(places))))
            for split, places in places_of.items()
        },
        planned={split: len(places) for split, places in places_of.items()},
        files=sum(len(pattern.files) for pattern in located.patterns),
        newest=_newest(located),
    )


def _bytes_of(names: pa.Array) -> bytes:
    """Return lengths and bytes of an array of names."""
    bounds, data = bounds_and_bytes(names)
    return np.diff(bounds).tobytes() + data.tobytes()


def _newest(located: LocatedInputs) -> int | None:
    """Return the newest change of a local file in nanoseconds; None if versions are other."""
    times = [0]
    for pattern in located.patterns if not is_remote(located.base) else ():
        versions = array_of(pattern.files.table, "version")
        versions = pc.filter(
            versions, pc.not_equal(versions, string_scalar(""))
        )  # of files that cannot be read
        if len(versions):
            changes = pc.list_element(pc.split_pattern(versions, "-"), int_scalar(1))
            times.append(pc.max(pc.cast(changes, pa.int64())).as_py())
    return max(times) or None
