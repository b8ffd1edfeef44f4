"""Listings of files, and the plans made of them."""

from components.common.entry import Blob, Column, Entry
from components.common.input_table import InputTable
from components.example_gen.file_plan import plan_shards
from components.example_gen.plan import Partition
from components.example_gen.settings import ImageSettings

LABEL = Column("label", "label")


def listing(labels: list, *, splits: dict[int, str] | None = None, **columns: list) -> InputTable:
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
    return InputTable.of(entries, columns=(LABEL, *(Column(name, "string") for name in columns)))


def plan(given: InputTable, partition: Partition | None = None, **settings: object):
    return plan_shards(given, partition=partition, settings=ImageSettings(**settings))
