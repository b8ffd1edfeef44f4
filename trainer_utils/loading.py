"""`load`: all splits of a dataset in one call.

splits = load("datasets/photos", batch_size=64, features="image", label="label")
model.fit(splits["train"], validation_data=splits["eval"])
"""

from typing import Any

import tensorflow as tf

from trainer_utils.dataset import open_dataset, uri_of
from trainer_utils.dataset.location import Artifacts, group_artifacts
from trainer_utils.format import DatasetError, resolve_slices
from trainer_utils.input_pipeline import input_fn
from trainer_utils.options import InputOptions, choose_options

__all__ = ["load"]


def load(
    artifact_uri: Artifacts, *, options: InputOptions | None = None, **settings: Any
) -> dict[str, tf.data.Dataset]:
    """Reads every split of a dataset.

    Args:
        artifact_uri: as `input_fn` takes it. Of a list, the splits that all of them have.
        options: of all splits; see `InputOptions`. `pre_batching_callback` and
            `post_batching_callback` may differ by split.
        settings: fields of `InputOptions`, which go before those of `options`.

    Returns:
        What `input_fn` gives, by split, in the dataset's order.

    Raises:
        DatasetError: there is no dataset, it is not whole, or they have no split in common.
        ConfigError: a setting is not allowed.
    """
    chosen = choose_options(options, settings, of="load", arguments=("options",))
    artifacts = artifact_uri if isinstance(artifact_uri, (list, tuple)) else [artifact_uri]
    uris = list(dict.fromkeys(map(uri_of, artifacts)))
    places = group_artifacts(uris, apart=chosen.weights is not None)
    datasets = [open_dataset(place).records for place in places]
    splits = [
        split for split in next(iter(datasets), {}) if all(split in records for records in datasets)
    ]
    if not splits:
        raise DatasetError(f"artifact_uri: expected datasets with a split in common, got {uris}")
    return _Splits({split: input_fn(uris, split, options=chosen) for split in splits})


class _Splits(dict[str, tf.data.Dataset]):
    """Datasets by split, which know the other usual spellings of a split's name."""

    def __missing__(self, name: str) -> tf.data.Dataset:
        try:
            (found,) = resolve_slices(str(name), dict.fromkeys(self, 0))
        except DatasetError as error:
            raise KeyError(str(error)) from None
        return self[found.split]
