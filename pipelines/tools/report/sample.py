"""What a sample of records says of a dataset's features: numbers, texts, pictures, sounds.

sample = draw_sample(reader, most_records=1000)
sample.features["height"].statistics[0].mean, sample.pictures
"""

import collections
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pipelines.tools.records import Example, ExampleReader, Value
from pipelines.tools.report.pictures import Picture, colour_means, draw_picture
from pipelines.tools.report.sounds import Sound, read_sound

__all__ = ["FeatureSample", "Sample", "Statistics", "Words", "draw_sample"]

_BINS = 24
_TOP_WORDS = 24
_MOST_TEXTS, _MOST_SOUNDS = 6, 8
_MOST_CLASSES, _MOST_OF_A_CLASS = 24, 6
_MOST_COLOURS = 200  # images of each feature and split, whose pixels are looked at
_MOST_FEATURES = 120  # with statistics, so that a table of thousands of columns stays a page
_MOST_TEXT_CHARACTERS = 400
_WORDS_OF_LANGUAGE = 4  # in a text, at the least
_WORD = re.compile(r"\w[\w'-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """Of the numbers that one thing takes in a split's sample.

    Args:
        name: of what is counted: `value`, `characters`, `height`, `width`, `seconds`, …
        split: that they are of.
        count: how many numbers.
        least, median, mean, most: of them.
        edges: `(bins + 1,)`, of the histogram; the same in all splits.
        counts: `(bins,)`, numbers in each bin.
    """

    name: str
    split: str
    count: int
    least: float
    median: float
    mean: float
    most: float
    edges: Sequence[float]
    counts: Sequence[int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """Of texts: the most frequent words with their counts, and some texts."""

    top: Sequence[tuple[str, int]]
    examples: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSample:
    """One feature in the sample.

    Args:
        kind: `number`, `image`, `sound`, `text` or `bytes`.
        present: the share of examples that have it, by split, in [0, 1].
        statistics: of its numbers, by split.
        formats: of images and sounds, how often each occurs.
        words: of texts.
    """

    kind: str
    present: Mapping[str, float]
    statistics: Sequence[Statistics]
    formats: Mapping[str, int]
    words: Words | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """What was found in some records.

    Args:
        records: looked at, by split.
        features: by name.
        pictures: by class, or by split where there are no classes.
        sounds: some, with their wave forms.
        more_features: how many were found besides.
        damage: why no more could be read, if so.
    """

    records: Mapping[str, int]
    features: Mapping[str, FeatureSample]
    pictures: Mapping[str, Sequence[Picture]]
    sounds: Sequence[Sound]
    more_features: int = 0
    damage: str | None = None


@dataclasses.dataclass
class _Collected:
    """Of one feature, while records are being read."""

    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    formats: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    present: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    numbers: dict[tuple[str, str], list[float]] = dataclasses.field(default_factory=dict)
    words: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    texts: list[str] = dataclasses.field(default_factory=list)

    def add(self, split: str, value: Value) -> None:
        if not value.values:
            return
        self.present[split] += 1
        self.kinds[value.kind] += 1
        if value.kind == "number":
            self._extend("value", split, value.values)
            if len(value.values) > 1:
                self._extend("values", split, [len(value.values)])
        elif value.kind == "image":
            self.formats[value.format] += 1
            height, width, channels = value.shape
            sizes = (("height", height), ("width", width), ("channels", channels))
            for name, number in sizes:
                self._extend(name, split, [number])
            self._extend("aspect (width / height)", split, [width / height])
            if self.formats.total() <= _MOST_COLOURS * len(self.present):
                for name, mean in colour_means(value).items():
                    self._extend(name, split, [mean])
        elif value.kind == "text":
            self._add_texts(split, value.texts)
        elif value.kind == "sound":
            self.formats[value.format] += 1
        if value.num_bytes:
            self._extend("bytes", split, [value.num_bytes])

    def add_sound(self, split: str, sound: Sound) -> None:
        self._extend("seconds", split, [sound.seconds])
        self._extend("sample rate", split, [sound.sample_rate])

    def _add_texts(self, split: str, texts: Sequence[str]) -> None:
        self._extend("characters", split, [len(text) for text in texts])
        words = [_WORD.findall(text.casefold()) for text in texts]
        if sum(map(len, words)) < _WORDS_OF_LANGUAGE * len(texts):
            return  # names and the like
        self._extend("words", split, [len(found) for found in words])
        for found in words:
            self.words.update(found)
        if len(self.texts) < _MOST_TEXTS:
            self.texts += [text[:_MOST_TEXT_CHARACTERS] for text in texts[:1]]

    def _extend(self, name: str, split: str, numbers: Iterable[float]) -> None:
        self.numbers.setdefault((name, split), []).extend(numbers)

    def result(self, records: Mapping[str, int]) -> FeatureSample:
        kind = self.kinds.most_common(1)[0][0] if self.kinds else "bytes"
        return FeatureSample(
            kind=kind,
            present={split: self.present[split] / n for split, n in records.items() if n},
            statistics=_statistics(self.numbers),
            formats=dict(self.formats.most_common()),
            words=Words(top=self.words.most_common(_TOP_WORDS), examples=self.texts)
            if self.texts
            else None,
        )


def draw_sample(
    reader: ExampleReader,
    *,
    most_records: int,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Sample:
    """Reads records that lie equally far apart in each split.

    Args:
        reader: of the dataset.
        most_records: of each split.
        advance: called after each record with 1, and how many records will be read.
    """
    collected: dict[str, _Collected] = {}
    records: dict[str, int] = {}
    pictures: dict[str, list[Picture]] = {}
    sounds: list[Sound] = []
    damage = None
    numbers: dict[str, list[int]] = {}
    for split in reader.splits:
        records[split] = 0
        try:
            numbers[split] = spread(reader.count(split), most_records)
        except (ValueError, OSError) as error:
            damage = str(error)
    total = sum(map(len, numbers.values()))
    for split in numbers:
        try:
            for example in reader.read(split, numbers[split]):
                records[split] += 1
                advance(1, total)
                for name, value in example.values.items():
                    feature = collected.setdefault(name, _Collected())
                    feature.add(split, value)
                    if (sound := read_sound(example, name)) is not None:
                        feature.add_sound(split, sound)
                        sounds += [sound] if len(sounds) < _MOST_SOUNDS else []
                _keep_picture(pictures, example)
        except (ValueError, OSError) as error:
            damage = str(error)
    return Sample(
        records=records,
        features={
            name: found.result(records)
            for name, found in itertools.islice(collected.items(), _MOST_FEATURES)
        },
        more_features=max(len(collected) - _MOST_FEATURES, 0),
        pictures=dict(sorted(pictures.items())),
        sounds=sounds,
        damage=damage,
    )


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, equally far apart, in increasing order."""
    taken = min(count, most)
    return [number * count // taken for number in range(taken)]


def _keep_picture(pictures: dict[str, list[Picture]], example: Example) -> None:
    name = _class_of(example)
    if name not in pictures and len(pictures) >= _MOST_CLASSES:
        return
    shown = pictures.get(name, [])
    if len(shown) < _MOST_OF_A_CLASS and (picture := draw_picture(example)) is not None:
        pictures[name] = [*shown, picture]


def _class_of(example: Example) -> str:
    """The name of its label; its split where it has none."""
    label = example.values.get("label")
    if label is None or label.kind not in ("number", "text") or len(label.values) != 1:
        return example.split
    return label.names[0] if label.names else str(label.to_json())


def _statistics(numbers: Mapping[tuple[str, str], Sequence[float]]) -> list[Statistics]:
    by_name: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    for (name, split), values in numbers.items():
        array = np.asarray(values, np.float64)
        array = array[np.isfinite(array)]
        if len(array):
            by_name.setdefault(name, {})[split] = array
    return [
        statistics for name, splits in by_name.items() for statistics in _of_splits(name, splits)
    ]


def _of_splits(name: str, splits: Mapping[str, npt.NDArray[np.float64]]) -> list[Statistics]:
    everything = np.concatenate(list(splits.values()))
    edges = np.histogram_bin_edges(everything, bins=min(_BINS, len(np.unique(everything))))
    return [
        Statistics(
            name=name,
            split=split,
            count=len(values),
            least=float(values.min()),
            median=float(np.median(values)),
            mean=float(values.mean()),
            most=float(values.max()),
            edges=edges.tolist(),
            counts=np.histogram(values, bins=edges)[0].tolist(),
        )
        for split, values in splits.items()
    ]
