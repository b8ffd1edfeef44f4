"""Infer the features of examples without metadata, by reading all records.

    facts.add(block, path=path)
    features_of_facts(facts)      # {'image': Feature(…), 'label': Feature(…)}

The facts of parts of a dataset can be merged, so each worker can inspect its own part.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.format import Feature, RecordBlock
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.format.example_columns import (
    Column,
    parse_by_kind,
    parse_examples,
    parse_feature_lists,
)
from trainer_utils.format.media_formats import ImageSize, image_size
from trainer_utils.format.tfrecord import HEADER_BYTES

_COMPANION = "_shape"  # suffix of a feature with the shape of another one, as in Datum
_MAX_RANK = 8
_SPACES_IN_TEXT = 2
_RAGGED = "ragged"
_NONE_YET = 1 << 62


@dataclasses.dataclass
class ImageFacts:
    """The facts about a feature with only encoded images as values.

    `size` has the height and width of the first image, and `one_size` whether all have it.
    `channels` and `formats` have all values that occur.
    """

    size: tuple[int, int]
    one_size: bool
    channels: frozenset[int]
    formats: frozenset[str]

    @classmethod
    def of_values(cls, values: Iterable[Any]) -> "ImageFacts | None":
        """Return the facts of a feature's values, or None if any value is not an image."""
        facts_by_size: dict[ImageSize, ImageFacts] = {}  # many photos have few sizes
        for value in values:
            if (size := image_size(value) if isinstance(value, bytes) else None) is None:
                return None
            if size not in facts_by_size:
                sets = frozenset([size.channels]), frozenset([size.format])
                facts_by_size[size] = cls((size.height, size.width), True, *sets)
        return functools.reduce(cls.merged, facts_by_size.values()) if facts_by_size else None

    def merged(self, other: "ImageFacts") -> "ImageFacts":
        """Merge with the facts of another part."""
        one_size = self.one_size and other.one_size and self.size == other.size
        sets = self.channels | other.channels, self.formats | other.formats
        return ImageFacts(self.size, one_size, *sets)


@dataclasses.dataclass
class FeatureFacts:
    """The facts about one feature, or one feature list of `tf.train.SequenceExample`.

    Args:
        kind: `int`, `float` or `string`.
        present: the number of examples that have it, or of steps in a list.
        values: the number of values in all of them.
        shortest: the smallest number of values in an example that has it, or in a step.
        longest: the largest number of values in an example that has it, or in a step.
        images: the facts about its images if every value is an image, else None.
        is_text: whether every value is UTF-8 and no value is an image.
        spaces: the number of spaces in a text feature.
        first: the values in the first example, for integer features named `<name>_shape`.
    """

    kind: str
    present: int
    values: int
    shortest: int
    longest: int
    images: ImageFacts | None = None
    is_text: bool = False
    spaces: int = 0
    first: list[int] = dataclasses.field(default_factory=list)

    def merge(self, other: "FeatureFacts") -> None:
        """Merge the facts of another part into these."""
        if other.values and not self.values:
            self.images, self.is_text = other.images, other.is_text
        elif other.values:
            self.images = self.images and other.images and self.images.merged(other.images)
            self.is_text &= other.is_text
        self.present += other.present
        self.values += other.values
        self.spaces += other.spaces
        self.shortest = min(self.shortest, other.shortest)
        self.longest = max(self.longest, other.longest)


@dataclasses.dataclass
class DatasetFacts:
    """The facts about all features and feature lists by name, in `records` examples."""

    records: int = 0
    features: dict[str, FeatureFacts] = dataclasses.field(default_factory=dict)
    lists: dict[str, FeatureFacts] = dataclasses.field(default_factory=dict)
    # Whether a feature may have another kind in a minority of the examples, which then count as bad
    # examples of it.
    takes_mixed: bool = False
    mixed: dict[str, list[FeatureFacts]] = dataclasses.field(default_factory=dict)

    def add(self, block: RecordBlock, *, path: str, takes_lists: bool = True) -> None:
        """Add the examples of a block of a file, with their feature lists if `takes_lists`.

        Raises:
            DatasetError: a record is not an example, has unexpected feature lists, or a feature has
                two types.
        """
        where = f"{path}, near byte {block.file_offset}"
        begins = block.starts + HEADER_BYTES
        bounds = block.data, begins, begins + block.lengths
        try:
            parsed, lists = self._parse(*bounds), parse_feature_lists(*bounds)
        except DatasetError as error:
            offset = block.file_offset + int(block.starts[error.record or 0])
            raise DatasetError(f"{path!r}: {error} (byte {offset})") from error
        if lists and not takes_lists:
            got = "tf.train.SequenceExample, whose feature lists no schema here holds"
            raise DatasetError(f"examples: expected tf.train.Example, got {got} ({where})")
        columns, *others = parsed
        features = {name: _facts(column) for name, column in columns.items() if column.kind}
        for name in features.keys() - self.features.keys():
            if name.endswith(_COMPANION) and features[name].kind == "int":
                column = columns[name]
                first = column.counts[column.counts > 0][:1].sum()
                features[name].first = column.values[: min(first, _MAX_RANK)].tolist()
        steps = {name: _facts_of_steps(column) for name, column in lists.items() if column.kind}
        self.merge(DatasetFacts(len(block), features, steps), where=where)
        for other in others:
            facts = {name: _facts(column) for name, column in other.items() if column.kind}
            self.merge(DatasetFacts(0, facts), where=where)

    def _parse(self, *bounds: Any) -> list[dict[str, Column]]:
        """Return the columns of records by feature.

        If a feature has values of several kinds, further dicts have its columns of other kinds.
        """
        try:
            return [parse_examples(*bounds)]
        except DatasetError:
            if not self.takes_mixed:
                raise
        columns_by_kind = parse_by_kind(*bounds)
        max_kinds = max(map(len, columns_by_kind.values()), default=1)
        dicts: list[dict[str, Column]] = [{} for _ in range(max_kinds)]
        for name, by_kind in columns_by_kind.items():
            for columns, column in zip(dicts, by_kind.values(), strict=False):
                columns[name] = column
        return dicts

    def merge(self, other: "DatasetFacts", *, where: str) -> None:
        """Merge the facts of another part; raise DatasetError if a feature has another type."""
        for mine, theirs in ((self.features, other.features), (self.lists, other.lists)):
            for name, facts in theirs.items():
                known = mine.setdefault(name, facts)
                if known.kind != facts.kind and self.takes_mixed and mine is self.features:
                    self._add_mixed(name, facts)
                    continue
                if known.kind != facts.kind:
                    said = f"expected {known.kind} in all examples, got {facts.kind}"
                    raise DatasetError(f"feature {name!r}: {said} ({where})")
                if known is not facts:
                    known.merge(facts)
        if both := sorted(self.features.keys() & self.lists.keys()):
            rule = "in the context or in the feature lists of a tf.train.SequenceExample"
            raise DatasetError(f"feature {both[0]!r}: expected it {rule}, got it in both ({where})")
        self.records += other.records

    def _add_mixed(self, name: str, facts: FeatureFacts) -> None:
        """Add facts of a further kind of a feature. The first kind stays the current one."""
        others = self.mixed.setdefault(name, [])
        same = next((other for other in others if other.kind == facts.kind), None)
        if same is None:
            others.append(facts)
        else:
            same.merge(facts)

    def settle_mixed(self) -> dict[str, dict[str, int]]:
        """Choose the most frequent kind of each mixed feature; return its examples by kind."""
        counts: dict[str, dict[str, int]] = {}
        for name, others in self.mixed.items():
            kinds = sorted([self.features[name], *others], key=lambda facts: -facts.present)
            self.features[name], self.mixed[name] = kinds[0], kinds[1:]
            counts[name] = {facts.kind: facts.present for facts in kinds}
        return counts

    @property
    def texts(self) -> frozenset[str]:
        """Features that are natural language: UTF-8, of three words or more in the mean."""
        return frozenset(
            name
            for name, facts in self.features.items()
            if facts.is_text and facts.spaces >= _SPACES_IN_TEXT * facts.values > 0
        )


def features_of_facts(facts: DatasetFacts) -> dict[str, Feature]:
    """Return the features by name in alphabetical order, as Datum describes them.

    A feature of variable length with a companion `<name>_shape` has the shape of the first example.
    A feature is dense if every example has the same number of its values. A string is dense only
    with one value, since Datum reads a dense string as one scalar. A feature list has the shape of
    one step. Its `extra["sequence"]` is that shape, or `"ragged"` if steps differ.
    """
    features = {
        name: _feature(entry, facts.records - sum(o.present for o in facts.mixed.get(name, ())))
        for name, entry in facts.features.items()
    }
    for name, feature in features.items():
        companion = features.get(name + _COMPANION)
        if companion is None or not companion.dense or len(companion.shape) != 1:
            continue
        shape = tuple(facts.features[name + _COMPANION].first)
        is_shape = len(shape) == companion.shape[0] and min(shape) >= 0
        if is_shape and not feature.dense and feature.type != "string":
            features[name] = dataclasses.replace(feature, shape=shape)
    features |= {name: _sequence(entry) for name, entry in facts.lists.items()}
    return dict(sorted(features.items()))


def _feature(facts: FeatureFacts, records: int) -> Feature:
    """Return the feature that facts about its values suggest."""
    longest = facts.longest
    dense = facts.present == records and facts.shortest == longest > 0
    dense &= facts.kind != "string" or longest == 1
    if facts.images is None or not dense:
        feature_shape = () if dense and longest == 1 else (longest,)
        is_optional = facts.kind != "string" and facts.present < records
        is_optional &= facts.shortest == longest == 1
        optional: JsonObject = {"optional": True} if is_optional else {}
        return Feature(type=facts.kind, shape=feature_shape, dense=dense, extra=optional)
    images = facts.images
    extra: JsonObject = {"sizes": "fixed" if images.one_size else "mixed"}
    if not DATUM_IMAGE_FORMATS.issuperset(images.formats):
        extra["formats"] = sorted(images.formats)
    # Datum decodes rank 2 with one channel and rank 3 with three.
    shape = images.size if images.channels == {1} else (*images.size, 3)
    return Feature(type="string", shape=shape, extra=extra)


def _sequence(facts: FeatureFacts) -> Feature:
    shape = () if facts.shortest == facts.longest == 1 else (facts.longest,)
    step = list(shape) if facts.shortest == facts.longest else _RAGGED
    return Feature(type=facts.kind, shape=shape, dense=False, extra={"sequence": step})


def _facts(column: Column) -> FeatureFacts:
    """Return the facts about the values of a column."""
    counts = column.counts[column.counts > 0]
    facts = FeatureFacts(
        kind=column.kind,
        present=len(counts),
        values=int(counts.sum()),
        shortest=int(counts.min(initial=_NONE_YET)),
        longest=int(counts.max(initial=0)),
    )
    if column.kind == "string":
        values = column.values.tolist()
        facts.images = ImageFacts.of_values(values)
        if facts.images is None and values:
            # Joining with newlines keeps invalid UTF-8 invalid.
            with contextlib.suppress(UnicodeDecodeError):
                facts.spaces = b"\n".join(values).decode().count(" ")
                facts.is_text = True
    return facts


def _facts_of_steps(column: Column) -> FeatureFacts:
    counts = [len(step) for steps in column.values for step in steps]
    return FeatureFacts(column.kind, len(counts), sum(counts), min(counts), max(counts))
