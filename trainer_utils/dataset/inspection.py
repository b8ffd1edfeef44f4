"""What the features of examples are, found by decoding them, a block of records at a time.

    facts = DatasetFacts()
    facts.add(block, path=path)
    features_of_facts(facts)      # {'image': Feature(…), 'label': Feature(…)}

Facts of parts of a dataset add up, so that workers each look at their own part.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.format import DatasetError, Feature, RecordBlock
from trainer_utils.format.example_decoding import has_feature_lists
from trainer_utils.format.image_size import ImageSize, image_size

__all__ = ["DatasetFacts", "FeatureFacts", "ImageFacts", "features_of_facts"]

_COMPANION = "_shape"  # of a feature of variable length and rank 2 or more, as Datum writes it
_MOST_RANK = 8
_SPACES_IN_TEXT = 2
_DATUM_DECODES = {"JPEG", "PNG"}


@dataclasses.dataclass
class ImageFacts:
    """Of a feature whose every value is an encoded image.

    Args:
        height, width: of the first, in pixels.
        one_size: whether all have that size.
        channels: that occur.
        formats: that occur.
    """

    height: int
    width: int
    one_size: bool
    channels: list[int]
    formats: list[str]

    def merge(self, other: "ImageFacts") -> None:
        """Takes another part's facts in."""
        self.one_size &= other.one_size and (self.height, self.width) == (other.height, other.width)
        self.channels = sorted({*self.channels, *other.channels})
        self.formats = sorted({*self.formats, *other.formats})


@dataclasses.dataclass
class FeatureFacts:
    """Of one feature.

    Args:
        kind: `int`, `float` or `string`.
        present: examples that have it.
        values: in all of them.
        shortest, longest: number of values in an example that has it.
        images: of a string whose every value is an image, else None.
        is_text: of a string: whether every value is UTF-8, and none an image.
        spaces: of a text: how many.
        first: of integers called `<name>_shape`: the values of the first example.
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
        """Takes another part's facts in."""
        if not other.values:
            mine = self.images, self.is_text
        elif not self.values:
            mine = other.images, other.is_text
        else:
            if self.images is not None and other.images is not None:
                self.images.merge(other.images)
            both = self.images is not None and other.images is not None
            mine = self.images if both else None, self.is_text and other.is_text
        self.images, self.is_text = mine
        self.present += other.present
        self.values += other.values
        self.spaces += other.spaces
        self.shortest = min(self.shortest, other.shortest)
        self.longest = max(self.longest, other.longest)


@dataclasses.dataclass
class DatasetFacts:
    """Of all features by name, in `records` examples."""

    records: int = 0
    features: dict[str, FeatureFacts] = dataclasses.field(default_factory=dict)

    def add(self, block: RecordBlock, *, path: str) -> None:
        """Takes the examples of a block in.

        Raises:
            DatasetError: a record is no `tf.train.Example`, or has the feature lists of a
                `tf.train.SequenceExample`, or a feature has two types.
        """
        where = f"{path}, near byte {block.file_offset}"
        try:
            records = block.records()
            if any(map(has_feature_lists, records)):
                raise ValueError(
                    "tf.train.SequenceExample, whose feature lists no schema here holds"
                )
            batch = _decoder().DecodeBatch(records)
        except Exception as error:
            raise DatasetError(
                f"examples: expected tf.train.Example, of one type a feature, got others: {error} "
                f"({where})"
            ) from error
        facts = {
            name: _column_facts(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if not pa.types.is_null(column.type)
        }
        self.merge(DatasetFacts(len(block), facts), where=where)

    def merge(self, other: "DatasetFacts", *, where: str) -> None:
        """Takes another part's facts in.

        Raises:
            DatasetError: a feature has another type there; the message has `where`.
        """
        for name, facts in other.features.items():
            mine = self.features.setdefault(name, facts)
            if mine.kind != facts.kind:
                raise DatasetError(
                    f"feature {name!r}: expected {mine.kind} in all examples, got {facts.kind} "
                    f"({where})"
                )
            if mine is not facts:
                mine.merge(facts)
        self.records += other.records

    @property
    def texts(self) -> frozenset[str]:
        """Features that are natural language: UTF-8, of three words or more in the mean."""
        return frozenset(
            name
            for name, facts in self.features.items()
            if facts.is_text and facts.spaces >= _SPACES_IN_TEXT * facts.values > 0
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DatasetFacts":
        """From what `dataclasses.asdict` and JSON made of one."""
        features = {}
        for name, entry in value["features"].items():
            images = entry["images"]
            features[name] = FeatureFacts(
                **{**entry, "images": None if images is None else ImageFacts(**images)}
            )
        return cls(value["records"], features)


def features_of_facts(facts: DatasetFacts) -> dict[str, Feature]:
    """Features as Datum has them.

    One of variable length that has its shape in `<name>_shape` has the shape of the first example.
    One is dense when every example has the same number of its values; a string only with one
    value, since Datum reads a dense string as one scalar.
    """
    features = {
        name: _feature(entry, records=facts.records)
        for name, entry in sorted(facts.features.items())
    }
    for name, feature in features.items():
        companion = features.get(name + _COMPANION)
        is_shape = companion is not None and companion.dense and len(companion.shape) == 1
        if is_shape and not feature.dense and feature.type != "string":
            shape = tuple(facts.features[name + _COMPANION].first)
            features[name] = dataclasses.replace(feature, shape=shape)
    return features


def _feature(facts: FeatureFacts, *, records: int) -> Feature:
    longest = facts.longest
    dense = facts.present == records and facts.shortest == longest > 0
    dense &= facts.kind != "string" or longest == 1
    if facts.images is not None and dense:
        return _image(facts.images)
    return Feature(type=facts.kind, shape=() if dense and longest == 1 else (longest,), dense=dense)


def _image(facts: ImageFacts) -> Feature:
    extra: dict[str, Any] = {"sizes": "fixed" if facts.one_size else "mixed"}
    if not _DATUM_DECODES.issuperset(facts.formats):
        extra["formats"] = facts.formats
    grey = facts.channels == [1]  # Datum decodes rank 2 to one channel and rank 3 to three
    shape = (facts.height, facts.width) if grey else (facts.height, facts.width, 3)
    return Feature(type="string", shape=shape, extra=extra)


def _decoder() -> Any:
    from tfx_bsl.coders import example_coder  # with TensorFlow; few workers decode examples

    return example_coder.ExamplesToRecordBatchDecoder()


def _column_facts(name: str, column: pa.Array) -> FeatureFacts:
    lengths = np.diff(np.asarray(column.offsets))[np.asarray(column.is_valid())]
    facts = FeatureFacts(
        kind=_kind(column.type.value_type),
        present=len(lengths),
        values=int(lengths.sum()),
        shortest=int(lengths.min(initial=np.iinfo(np.int64).max)),
        longest=int(lengths.max(initial=0)),
    )
    if facts.kind == "int" and name.endswith(_COMPANION) and facts.longest <= _MOST_RANK:
        facts.first = column.flatten()[: facts.longest].to_pylist()
    if facts.kind == "string" and facts.values:
        values = column.flatten()
        facts.images = _images(values)
        if facts.images is None:
            facts.is_text = _is_utf8(values)
            facts.spaces = pc.sum(pc.count_substring(values, " ")).as_py() if facts.is_text else 0
    return facts


def _images(values: pa.Array) -> ImageFacts | None:
    """Of values that are all images; the first that is none ends the search."""
    found: set[ImageSize] = set()
    first = None
    for value in values:
        size = image_size(value.as_py())
        if size is None:
            return None
        first = first or size
        found.add(size)
    assert first is not None
    return ImageFacts(
        height=first.height,
        width=first.width,
        one_size=len({(size.height, size.width) for size in found}) == 1,
        channels=sorted({size.channels for size in found}),
        formats=sorted({size.format for size in found}),
    )


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.large_string() if pa.types.is_large_binary(values.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _kind(value_type: pa.DataType) -> str:
    if pa.types.is_integer(value_type):
        return "int"
    return "float" if pa.types.is_floating(value_type) else "string"
