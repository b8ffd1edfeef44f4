"""What a sample of records says of a dataset's features: numbers, texts, pictures, sounds.

sample = draw_sample(reader, most_records=1000)
sample.features["height"].statistics["value"]["train"].mean, sample.pictures
"""

import collections
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from components.report.pictures import Picture, Sound, draw_picture, read_sound
from components.report.records import Example, ExampleReader, Value
from trainer_utils.storage.faults import is_fault

_BINS = 24
_TOP_WORDS = 24
_MOST_TEXTS, _MOST_SOUNDS = 6, 8
_MOST_CLASSES, _MOST_OF_A_CLASS = 24, 6
_MOST_FEATURES = 120  # with statistics, so that a table of thousands of columns stays a page
_MOST_TEXT_CHARACTERS = 400
_WORDS_OF_LANGUAGE = 4  # in a text, at the least
_WORD = re.compile(r"\w[\w'-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """Of the numbers that one thing takes in a split's sample.

    `shares` is `(bins,)`, of the numbers in each bin, which are the same in all splits.
    """

    least: float
    median: float
    mean: float
    most: float
    shares: Sequence[float]


class FeatureSample:
    """One feature in the sample."""

    def __init__(self) -> None:
        # How often each occurs.
        self.kinds = collections.Counter[str]()  # `number`, `image`, `sound`, `text` or `bytes`
        self.formats = collections.Counter[str]()  # of images and sounds
        self.present = collections.Counter[str]()  # examples that have it, by split
        self.words = collections.Counter[str]()  # of texts
        self.texts: list[str] = []  # some of them
        # What is counted of it, by its name and split.
        self.numbers: dict[str, dict[str, list[float]]] = {}

    @property
    def kind(self) -> str:
        """The most frequent one."""
        return self.kinds.most_common(1)[0][0] if self.kinds else "bytes"

    @property
    def top_words(self) -> list[tuple[str, int]]:
        """The most frequent words."""
        return self.words.most_common(_TOP_WORDS)

    @property
    def statistics(self) -> dict[str, dict[str, Statistics]]:
        """By what is counted and by split."""
        found = {}
        for name, by_split in self.numbers.items():
            arrays = {split: np.asarray(numbers, float) for split, numbers in by_split.items()}
            arrays = {split: array[np.isfinite(array)] for split, array in arrays.items()}
            arrays = {split: array for split, array in arrays.items() if len(array)}
            if arrays:
                values = np.concatenate(list(arrays.values()))
                bins = min(_BINS, len(np.unique(values)))
                edges = np.histogram_bin_edges(values, bins=bins)
                found[name] = {s: _statistics_of(array, edges) for s, array in arrays.items()}
        return found

    def add(self, split: str, value: Value) -> None:
        """Takes note of its value in an example."""
        if not value.values:
            return
        self.present[split] += 1
        self.kinds[value.kind] += 1
        if value.kind == "number":
            self._count("value", split, value.values)
            if len(value.values) > 1:
                self._count("values", split, [len(value.values)])
        elif value.kind == "image":
            height, width, channels = value.shape
            sizes = {"height": height, "width": width, "channels": channels}
            for name, number in {**sizes, "aspect (width / height)": width / height}.items():
                self._count(name, split, [number])
        elif value.kind == "text":
            self._add_texts(split, value.texts)
        if value.format:
            self.formats[value.format] += 1
        if value.num_bytes and value.kind != "text":
            self._count("bytes", split, [value.num_bytes])

    def add_sound(self, split: str, sound: Sound) -> None:
        """Takes note of a sound's length."""
        self._count("seconds", split, [sound.seconds])
        self._count("sample rate", split, [sound.sample_rate])

    def _add_texts(self, split: str, texts: Sequence[str]) -> None:
        self._count("characters", split, [len(text) for text in texts])
        words = [_WORD.findall(text.casefold()) for text in texts]
        if sum(map(len, words)) >= _WORDS_OF_LANGUAGE * len(texts):  # fewer are names and the like
            self._count("words", split, [len(found) for found in words])
            self.words.update(itertools.chain.from_iterable(words))
            if len(self.texts) < _MOST_TEXTS:
                self.texts += [text[:_MOST_TEXT_CHARACTERS] for text in texts[:1]]

    def _count(self, name: str, split: str, numbers: Iterable[float]) -> None:
        self.numbers.setdefault(name, {}).setdefault(split, []).extend(numbers)


def _statistics_of(array: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> Statistics:
    return Statistics(
        least=float(array.min()),
        median=float(np.median(array)),
        mean=float(array.mean()),
        most=float(array.max()),
        shares=(np.histogram(array, bins=edges)[0] / len(array)).tolist(),
    )


@dataclasses.dataclass(kw_only=True)
class Sample:
    """What was found in some records."""

    records: dict[str, int]  # looked at, by split
    features: dict[str, FeatureSample] = dataclasses.field(default_factory=dict)
    # By class, or by split where there are no classes.
    pictures: dict[str, list[Picture]] = dataclasses.field(default_factory=dict)
    sounds: list[Sound] = dataclasses.field(default_factory=list)  # some
    more_features: int = 0  # were found besides
    damage: str = ""  # why no more could be read, if so


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
    found = Sample(records=dict.fromkeys(reader.splits, 0))
    numbers: dict[str, list[int]] = {}
    for split in reader.splits:
        with _noting_damage(found):
            numbers[split] = spread(reader.count(split), most_records)
    total = sum(map(len, numbers.values()))
    for split in numbers:
        with _noting_damage(found):
            for example in reader.read(split, numbers[split]):
                found.records[split] += 1
                advance(1, total)
                for name, value in example.values.items():
                    feature = found.features.setdefault(name, FeatureSample())
                    feature.add(split, value)
                    if (sound := read_sound(example, name)) is not None:
                        feature.add_sound(split, sound)
                        found.sounds += [sound] if len(found.sounds) < _MOST_SOUNDS else []
                _keep_picture(found.pictures, example)
    found.more_features = max(len(found.features) - _MOST_FEATURES, 0)
    found.features = dict(itertools.islice(found.features.items(), _MOST_FEATURES))
    found.pictures = dict(sorted(found.pictures.items()))
    return found


@contextlib.contextmanager
def _noting_damage(sample: Sample) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        if is_fault(error):
            raise
        sample.damage = str(error)


def spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, equally far apart, in increasing order."""
    taken = min(count, most)
    return [number * count // taken for number in range(taken)]


def _keep_picture(pictures: dict[str, list[Picture]], example: Example) -> None:
    label, name = example.values.get("label"), example.split
    if label is not None and label.kind in ("number", "text") and len(label.values) == 1:
        name = label.names[0] if label.names else str(label.to_json())
    if name in pictures or len(pictures) < _MOST_CLASSES:
        shown = pictures.get(name, [])
        if len(shown) < _MOST_OF_A_CLASS and (picture := draw_picture(example)) is not None:
            pictures[name] = [*shown, picture]
