"""The examples of a converted dataset as plain Python values.

read_examples(uri)["train"][0]["label"]      # 'cat'
boxes_in_pixels(example, (320, 240))         # [('cat', (10, 20, 110, 100))]
"""

import posixpath
from collections.abc import Mapping
from typing import Any

from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.compression import read_shard_blocks
from trainer_utils.format import Feature
from trainer_utils.format.example import decode_example

Example = Mapping[str, Any]


def read_examples(uri: str) -> dict[str, list[dict[str, Any]]]:
    """Return the examples of each split; ids of classes become names, encoded strings become str.

    A dense scalar and an image become a value, any other feature a list. Images and audio stay
    bytes.
    """
    dataset = open_dataset(uri)
    vocabularies = dataset.vocabularies
    found: dict[str, list[dict[str, Any]]] = {}
    for split, shards in dataset.shards.items():
        found[split] = []
        for shard in shards:
            for block in read_shard_blocks(shard.path):
                for number in range(len(block)):
                    values = decode_example(block.record(number))
                    found[split].append(
                        {
                            name: _plain(
                                list(value),
                                vocabularies.get(name),
                                is_scalar=_holds_one(dataset.features[name]),
                            )
                            for name, value in values.items()
                        }
                    )
    return found


def _holds_one(feature: Feature) -> bool:
    return feature.dense and (feature.is_image or not feature.shape)


def _plain(values: list[Any], vocabulary: Any, *, is_scalar: bool) -> Any:
    values = [_decoded(bytes(v)) if isinstance(v, (bytes, memoryview)) else v for v in values]
    if vocabulary is not None:
        values = [vocabulary[value] if value >= 0 else value for value in values]
    return values[0] if is_scalar and values else values


def _decoded(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def counts(splits: Mapping[str, list[Any]]) -> dict[str, int]:
    """Return how many examples each split has."""
    return {name: len(examples) for name, examples in splits.items()}


def all_of(splits: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the examples of all splits."""
    return [example for examples in splits.values() for example in examples]


def by_name(splits: Mapping[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the examples of all splits by the last part of their filenames."""
    return {posixpath.basename(example["filename"]): example for example in all_of(splits)}


def boxes_in_pixels(
    example: Example, size: tuple[int, int]
) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Return label and `(left, top, right, bottom)` of each box, rounded to 0.01 pixels."""
    width, height = size
    scales = {"xmin": width, "ymin": height, "xmax": width, "ymax": height}
    edges = [[round(v * scale, 2) for v in example.get(name, ())] for name, scale in scales.items()]
    return sorted(zip(example.get("labels", ()), zip(*edges, strict=True), strict=True))
