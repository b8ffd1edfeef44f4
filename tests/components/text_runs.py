"""Runs TextExampleGen's executor, and reads what it wrote with TensorFlow's own reader."""

import dataclasses
import functools
import itertools
import json
import os
from pathlib import Path
from typing import Any

from tfx.types import standard_artifacts

from components.text_example_gen import Executor
from tests.components import runs
from tests.components.runs import Row


@dataclasses.dataclass(frozen=True)
class Dataset:
    """What a run wrote."""

    uri: Path
    artifact: standard_artifacts.Examples

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.uri / "manifest.json").read_text())

    @functools.cached_property
    def features(self) -> dict[str, Any]:
        """Datum's description of the features."""
        return json.loads((self.uri / "datum_to_type_and_shape_mapping.json").read_text())

    def shards(self, split: str) -> list[Path]:
        return runs.shards(self.uri, split)

    @functools.cached_property
    def splits(self) -> dict[str, list[Row]]:
        """The examples of each split, in order."""
        return runs.rows_of(self.uri)

    def by_id(self, *, key: str = "id") -> dict[str, Row]:
        """Every example's features but its id, by this."""
        rows: dict[str, Row] = {}
        for row in itertools.chain.from_iterable(self.splits.values()):
            (name,) = row[key]
            assert os.fsdecode(name) not in rows, "in the dataset twice"
            rows[os.fsdecode(name)] = {n: values for n, values in row.items() if n != key}
        return rows

    def ids(self, split: str) -> list[str]:
        """The ids of a split, in order."""
        return [os.fsdecode(row["id"][0]) for row in self.splits[split]]

    def split_of(self) -> dict[str, str]:
        """The split of every example, by id."""
        return {name: split for split in self.splits for name in self.ids(split)}

    def texts(self, feature: str = "text") -> dict[str, str]:
        """A feature that is one text, by id."""
        return {name: row[feature][0].decode() for name, row in self.by_id().items()}

    def vocabulary(self, feature: str = "label") -> list[str]:
        return runs.vocabulary(self.uri, feature)

    def labels(self, feature: str = "label") -> dict[str, str]:
        """The word of a label, by id."""
        words = self.vocabulary(feature)
        return {name: words[row[feature][0]] for name, row in self.by_id().items()}

    @functools.cached_property
    def rejects(self) -> list[dict[str, str]]:
        return runs.rejects_in(self.uri)

    def counts(self) -> dict[str, int]:
        """Found, written, rejected and skipped, of all splits."""
        return runs.accounting(self.manifest["total"])


def run(base: Path | str, uri: Path, **settings: Any) -> Dataset:
    """Runs the executor on a folder or file."""
    dataset = Dataset(uri, runs.run(Executor, base, uri, **settings))
    runs.check_law(uri)
    return dataset
