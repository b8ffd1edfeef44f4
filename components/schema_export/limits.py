"""What Datum cannot express of a dataset, and how to change the data so that it can.

for note in datum_limits(features, paths):
    logging.warning(note)
"""

from collections.abc import Iterable, Mapping

from trainer_utils.format import Feature
from trainer_utils.format.datum import DATUM_IMAGE_FORMATS
from trainer_utils.storage import is_remote

__all__ = ["datum_limits"]


def datum_limits(features: Mapping[str, Feature], paths: Iterable[str]) -> list[str]:
    """One sentence for each thing that Datum's reader (1.13) would not read as it is."""
    paths = list(paths)
    notes = []
    if any(path.endswith(".gz") for path in paths):
        notes.append("shards: Datum reads no gzip. Write them with compression='none'.")
    if any(is_remote(path) for path in paths):
        notes.append(
            "shards: Datum joins a shard's path to the folder of its JSON, so that it opens remote "
            "shards only there. Give Datum the uri of the examples."
        )
    for name, feature in sorted(features.items()):
        notes += [f"feature {name!r}: {note}" for note in _notes(name, feature, features)]
    return notes


def _notes(name: str, feature: Feature, features: Mapping[str, Feature]) -> list[str]:
    if feature.is_raw_image:
        return ["Datum has no raw pixels and reads bytes. Keep the images encoded."]
    if feature.is_base64_image:
        return ["Datum has no pixels in base64 and reads text. Convert the images anew."]
    if feature.is_image:
        notes = []
        others = sorted(set(feature.extra.get("formats", ())) - DATUM_IMAGE_FORMATS)
        if others:
            notes.append(f"Datum decodes no {', '.join(others)}. Convert these to JPEG or PNG.")
        if not feature.dense:
            notes.append(
                "Datum needs an image in every example. Leave out the examples without one."
            )
        return notes
    if feature.type == "string" and not feature.dense and feature.shape == (1,):
        return ["Datum reads a missing value as an empty list. Write an empty text instead."]
    if not feature.dense and len(feature.shape) > 1 and f"{name}_shape" not in features:
        return [
            "Datum reads matrices of any size only with each one's shape beside it. Write a "
            f"feature '{name}_shape' of {len(feature.shape)} integers."
        ]
    return []
