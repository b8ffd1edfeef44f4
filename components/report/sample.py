"""Summarise the features of a dataset from a sample of its records.

sample = draw_sample(reader, most_records=1000)
sample.features["height"].statistics["value"]["train"]["mean"], sample.pictures

Pictures are small `data:` uris. Label maps are drawn into them; boxes are kept separately.
"""

import base64
import collections
import contextlib
import dataclasses
import io
import itertools
import re
import wave
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from components.media.image_opening import in_eight_bits
from components.report.records import Example, ExampleReader, Value
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.storage.host_errors import is_host_error

_BINS = 24
_MAX_TEXTS, _MAX_SOUNDS, _MAX_NAMES = 6, 8, 3
_MAX_CLASSES, _MAX_OF_A_CLASS = 24, 6
_MAX_FEATURES = 120  # features with statistics, to keep the page of a wide table small
_MAX_TEXT_CHARACTERS = 400
_WORDS_OF_LANGUAGE = 4  # strings with fewer words on average are names rather than language
_WORD = re.compile(r"\w[\w'-]*")
_SIDE = 144  # pixels
_QUALITY = 70
_EDGES = ("xmin", "xmax", "ymin", "ymax")
_MAX_BOXES = 20
_MAX_PIXELS = 90_000_000
_PEAKS = 80  # points of a waveform
# Colours of class ids in label maps: far apart, and the same on every page.
_STEPS = ((37, 0), (91, 60), (151, 120))
_COLOURS = [(step * n + first) % 256 for n in range(256) for step, first in _STEPS]
_LABEL_MAP_OPACITY = 0.5


class Picture(NamedTuple):
    """A small picture: its `data:` uri, its size, the name of its example, and its objects.

    Each object has a box, with edges relative to the picture, and a label.
    """

    source: str
    width: int
    height: int
    name: str
    boxes: Sequence[Mapping[str, float | str]]


class Sound(NamedTuple):
    """One clip: the name of its example, and the peak amplitudes of its parts, in [0, 1]."""

    name: str
    seconds: float
    sample_rate: int  # samples per second
    channels: int
    peaks: Sequence[float]


class FeatureSample:
    """The statistics of one feature in the sample."""

    def __init__(self) -> None:
        # Frequencies.
        self.kinds = collections.Counter[str]()  # the kinds of `Value`
        self.formats = collections.Counter[str]()  # formats of images and audio
        self.present = collections.Counter[str]()  # examples that have the feature, by split
        self.words = collections.Counter[str]()  # words of strings
        self.texts: list[str] = []  # a few strings
        self.names: list[str] = []  # a few names of records, which get no statistics
        self.tables = set[str]()  # up to two tables that rows come from: of `reviews.csv:7`
        # Numbers by the name of the statistic and by split.
        self.numbers: dict[str, dict[str, list[float]]] = {}

    @property
    def kind(self) -> str:
        """The most frequent kind."""
        return self.kinds.most_common(1)[0][0] if self.kinds else "bytes"

    @property
    def statistics(self) -> dict[str, dict[str, dict[str, object]]]:
        """Statistics by name and split; `shares` use the same bins for all splits."""
        statistics = {}
        for name, by_split in self.numbers.items():
            arrays = {split: np.asarray(numbers, float) for split, numbers in by_split.items()}
            arrays = {split: array[np.isfinite(array)] for split, array in arrays.items()}
            arrays = {split: array for split, array in arrays.items() if len(array)}
            if arrays:
                values = np.concatenate(list(arrays.values()))
                bins = min(_BINS, len(np.unique(values)))
                edges = np.histogram_bin_edges(values, bins=bins)
                statistics[name] = {
                    split: {
                        "least": float(array.min()),
                        "median": float(np.median(array)),
                        "mean": float(array.mean()),
                        "most": float(array.max()),
                        "shares": (np.histogram(array, bins=edges)[0] / len(array)).tolist(),
                    }
                    for split, array in arrays.items()
                }
        return statistics

    def add(self, split: str, value: Value, sound: Sound | None) -> None:
        """Add the value of one example, and the clip in it."""
        if not value.values:
            return
        self.present[split] += 1
        self.kinds[value.kind] += 1
        if value.kind == "number":
            if not value.names:  # the labels' table has the classes
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
        if sound is not None:
            self._count("seconds", split, [sound.seconds])
            self._count("sample rate", split, [sound.sample_rate])

    def add_name(self, split: str, value: Value) -> None:
        """Add the name of one example. The lengths of names say nothing about the data."""
        self.present[split] += 1
        self.kinds[value.kind] += 1
        texts = value.texts if value.kind == "text" else [*map(str, value.values)]
        if len(self.names) < _MAX_NAMES:
            self.names += [text[:_MAX_TEXT_CHARACTERS] for text in texts]
        if len(self.tables) < 2:  # one is the source of all rows; two are not
            self.tables.update(text.rpartition(":")[0] for text in texts)

    def _add_texts(self, split: str, texts: Sequence[str]) -> None:
        self._count("characters", split, [len(text) for text in texts])
        words = [_WORD.findall(text.casefold()) for text in texts]
        if sum(map(len, words)) >= _WORDS_OF_LANGUAGE * len(texts):  # else they are names
            self._count("words", split, [len(words_of_text) for words_of_text in words])
            self.words.update(itertools.chain.from_iterable(words))
            if len(self.texts) < _MAX_TEXTS:
                self.texts += [text[:_MAX_TEXT_CHARACTERS] for text in texts[:1]]

    def _count(self, name: str, split: str, numbers: Iterable[float]) -> None:
        self.numbers.setdefault(name, {}).setdefault(split, []).extend(numbers)


@dataclasses.dataclass(kw_only=True)
class Sample:
    """The summary of a sample of records."""

    records: dict[str, int]  # records in the sample, by split
    features: dict[str, FeatureSample] = dataclasses.field(default_factory=dict)
    # By class, or by split if there are no classes.
    pictures: dict[str, list[Picture]] = dataclasses.field(default_factory=dict)
    sounds: list[Sound] = dataclasses.field(default_factory=list)  # a few clips
    more_features: int = 0  # features without statistics
    damage: str = ""  # the error that ended reading, if any


def draw_sample(
    reader: ExampleReader,
    *,
    most_records: int,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Sample:
    """Read evenly spaced records of each split.

    `advance` is called after each record with 1 and the number of records in the sample.
    """
    sample = Sample(records=dict.fromkeys(reader.splits, 0))
    numbers: dict[str, list[int]] = {}
    for split in reader.splits:
        with _noting_damage(sample):
            numbers[split] = spread(reader.count(split), most_records)
    total = sum(map(len, numbers.values()))
    for split in numbers:
        with _noting_damage(sample):
            for example in reader.read(split, numbers[split]):
                sample.records[split] += 1
                advance(1, total)
                for name, value in example.values.items():
                    sound = _read_sound(example.name, value)
                    feature = sample.features.setdefault(name, FeatureSample())
                    if name in NAME_FEATURES:
                        feature.add_name(split, value)
                    else:
                        feature.add(split, value, sound)
                    if sound is not None and len(sample.sounds) < _MAX_SOUNDS:
                        sample.sounds.append(sound)
                _keep_picture(sample.pictures, example)
    sample.more_features = max(len(sample.features) - _MAX_FEATURES, 0)
    sample.features = dict(itertools.islice(sample.features.items(), _MAX_FEATURES))
    sample.pictures = dict(sorted(sample.pictures.items()))
    return sample


@contextlib.contextmanager
def _noting_damage(sample: Sample) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        if is_host_error(error):
            raise
        sample.damage = str(error)


def spread(count: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced numbers below `count`, in ascending order."""
    taken = min(count, most)
    return [number * count // taken for number in range(taken)]


def _keep_picture(pictures: dict[str, list[Picture]], example: Example) -> None:
    label, name = example.values.get("label"), example.split
    if label is not None and label.kind in ("number", "text") and len(label.values) == 1:
        name = label.names[0] if label.names else str(label.to_json())
    if name in pictures or len(pictures) < _MAX_CLASSES:
        shown = pictures.get(name, [])
        if len(shown) < _MAX_OF_A_CLASS and (picture := _draw_picture(example)) is not None:
            pictures[name] = [*shown, picture]


def _draw_picture(example: Example) -> Picture | None:
    """Return the first image of an example as a thumbnail, or None if Pillow reads none."""
    images = [v for n, v in example.values.items() if v.kind == "image" and n != "label"]
    if not images or (image := _open(images[0])) is None:
        return None
    label = example.values.get("label")
    if label is not None and label.kind == "image" and (label_map := _open(label)) is not None:
        ids = label_map.convert("L").resize(image.size, Image.Resampling.NEAREST)
        ids.putpalette(_COLOURS)
        image = Image.blend(image, ids.convert("RGB"), _LABEL_MAP_OPACITY)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_QUALITY)
    source = f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
    return Picture(source, image.width, image.height, example.name, _boxes(example))


def _open(value: Value) -> Image.Image | None:
    try:
        with Image.open(io.BytesIO(value.content)) as image:
            if image.width * image.height > _MAX_PIXELS:
                return None
            image.draft("RGB", (_SIDE, _SIDE))
            small = in_eight_bits(image).convert("L" if value.shape[2] == 1 else "RGB")
    except Exception as error:  # Pillow raises a dozen types on hostile files
        if is_host_error(error):
            raise
        return None
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    return small.convert("RGB")


def _boxes(example: Example) -> list[Mapping[str, float | str]]:
    edges = [example.values[name].values for name in _EDGES if name in example.values]
    if len(edges) != len(_EDGES):
        return []
    labels = example.values.get("labels")
    names = [] if labels is None else labels.names or [str(v) for v in labels.values]
    named = zip([*names, *[""] * _MAX_BOXES], *edges, strict=False)
    return [
        {"x": x, "y": y, "width": right - x, "height": bottom - y, "label": name}
        for name, x, right, y, bottom in itertools.islice(named, _MAX_BOXES)
        if all(isinstance(edge, float) and 0 <= edge <= 1 for edge in (x, right, y, bottom))
    ]


def _read_sound(name: str, value: Value) -> Sound | None:
    """Return the clip of a value, or None if it is not plain WAV."""
    if value.format != "WAV" or not value.is_file:
        return None
    try:
        with wave.open(io.BytesIO(value.content)) as reader:
            rate, channels = reader.getframerate(), reader.getnchannels()
            width, frames = reader.getsampwidth(), reader.readframes(reader.getnframes())
    except (wave.Error, EOFError, ValueError):  # floating-point WAV, for example
        return None
    if width != 2 or not rate or not channels:
        return None
    samples = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2").astype(np.int32)
    parts = np.array_split(np.abs(samples), min(_PEAKS, max(len(samples), 1)))
    peaks = [float(part.max(initial=0)) / 32768 for part in parts]
    return Sound(name, len(samples) / channels / rate, rate, channels, peaks)
