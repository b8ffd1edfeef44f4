"""Find a record of an input by its name: its `filename`, `id` or `record_id`.

position = find_position("cat/1.jpg", sources, order.ranges, options)
"""

from collections.abc import Sequence

import numpy as np

from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.printable import printable
from trainer_utils.dataset.opening import find_numbers
from trainer_utils.dataset.raw_inputs import RawDataset
from trainer_utils.dataset.selection import Source
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.slices import FileRange, RecordName, RecordPositions
from trainer_utils.options import InputOptions
from trainer_utils.reading.filtering import matching_records
from trainer_utils.reading.packing import PackedSource
from trainer_utils.storage.paths import encode_path


def find_position(
    name: str, sources: Sequence[Source], ranges: Sequence[FileRange], options: InputOptions
) -> int:
    """Return the position of the first record with a name, in the order of storage.

    The record index has the names. Without one, all records are read.

    Args:
        name: the name.
        sources: the sources of the input.
        ranges: the ranges of files of the order of the input.
        options: the settings of the input.

    Raises:
        ConfigError: the input has packs, which have no names.
        DatasetError: there is no such record.
    """
    positions, first = RecordPositions(ranges), 0
    for source in sources:
        if isinstance(source, PackedSource):
            raise ConfigError.of("record", name, allowed="a number, since packs have no names")
        named = _named_in_index(name, source)
        if named is None:
            matches = np.flatnonzero(matching_records(source, _condition(name, source), options))
            places = [first + int(match) for match in matches[:1]]
        else:
            places = [place for record in named for place in positions.positions_of(record)]
        if places:
            return min(places)
        first += source.num_records
    uris = ", ".join(dict.fromkeys(printable(source.dataset.uri) for source in sources))
    names = ", ".join(NAME_FEATURES)
    raise DatasetError(f"record {name!r}: expected one of {names} of a record, found none ({uris})")


def _named_in_index(name: str, source: Source) -> list[RecordName] | None:
    """Return the records with a name, or None if the records must be read to find them."""
    if isinstance(source.dataset, RawDataset):
        return None
    shards = {shard.path: shard for shard in source.dataset.shard_files}
    records: list[RecordName] = []
    for path in dict.fromkeys(part.path for part in source.ranges):
        numbers = find_numbers(source.dataset, shards[path], [encode_path(name)])
        if numbers is None:
            return None
        records += [RecordName(path, number) for number in numbers]
    return records


def _condition(name: str, source: Source) -> str:
    """Return the condition that a record has a name; raise DatasetError if records have none."""
    tests = []
    for feature_name in NAME_FEATURES:
        feature = source.dataset.features.get(feature_name)
        if feature is None:
            continue
        if feature.type == "string":
            tests.append(f"{feature_name} == {name!r}")
        elif feature.type == "int" and name.removeprefix("-").isdecimal():
            tests.append(f"{feature_name} == {int(name)}")
    if not tests:
        rule = f"records with a feature {' or '.join(NAME_FEATURES)}"
        raise DatasetError(
            f"record {name!r}: expected {rule} of this type, found none "
            f"({printable(source.dataset.uri)}). Pass the number of the record."
        )
    return " or ".join(tests)
