"""Reads a dataset as a trainer will, before one is started for it.

check_input("/minio/…/balanced_examples", batch_size=256, workers=8)
"""

import logging
from collections.abc import Mapping

from trainer_utils.dataset import open_dataset, read_shard_blocks
from trainer_utils.format import CorruptShardError, DatasetError
from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["check_input"]

_IMAGE_SIZE = (224, 224)


def check_input(
    uri: str,
    *,
    split: str = "train",
    batch_size: int = 64,
    workers: int = 1,
    input_options: Mapping[str, Json] | None = None,
    seconds: float = 2.0,
    min_records_per_second: float = 0.0,
) -> dict[str, float]:
    """Checks every record, plans an epoch and measures the input.

    Args:
        uri: of the dataset; all others as the component `train_input_check` has them.

    Returns:
        The metrics.

    Raises:
        DatasetError: the dataset is damaged or not whole, the plan is impossible, or the input is
            slower than it was asked to be.
    """
    import trainer_utils
    from trainer_utils.monitoring import measure_input

    options = {name: _value(value) for name, value in (input_options or {}).items()}
    options = {**_check_records(uri, options), **options}
    plan = trainer_utils.plan(uri, split, workers=workers, batch_size=batch_size, **options)
    logging.info("%s", plan)
    report = measure_input(uri, split, batch_size=batch_size, seconds=seconds, **options)
    logging.info("%s", report.render())
    speed = report.stages[-1].records_per_second
    if speed < min_records_per_second:
        raise DatasetError(
            f"min_records_per_second: expected at least {min_records_per_second:,.0f}, measured "
            f"{speed:,.0f} ({uri}). The input is bound by {report.bound}, mostly in "
            f"{report.slowest}."
        )
    return {
        "records": plan.records,
        "steps": plan.steps,
        "dropped": plan.dropped,
        "padded": plan.padded,
        "records_per_second": round(speed, 1),
        "least_step_seconds": round(report.step_seconds, 6),
    }


def _check_records(uri: str, options: Mapping[str, Json]) -> JsonObject:
    """Reads every record with its checksums.

    Returns:
        The settings without which the records make no batches: photos are of many sizes.
    """
    dataset = open_dataset(uri)
    for shard in dataset.shard_files:
        found = sum(len(block) for block in read_shard_blocks(shard.path))
        if shard.records is not None and found != shard.records:
            raise CorruptShardError(
                f"shard {shard.path!r}: expected {shard.records} records, found {found}. "
                "Write the dataset again.",
                path=shard.path,
            )
    asked = options.get("features")
    names = [asked] if isinstance(asked, str) else asked
    mixed = [
        name
        for name, feature in dataset.features.items()
        if feature.is_image and not feature.is_fixed_size and (names is None or name in names)
    ]
    if not mixed or "image_size" in options:
        return {}
    logging.info("%s: of many sizes, measured at %s x %s", ", ".join(mixed), *_IMAGE_SIZE)
    return {"image_size": _IMAGE_SIZE}


def _value(value: Json) -> Json:
    """An option as `input_fn` takes it: JSON has no tuples, such as an `image_size` is."""
    if isinstance(value, list) and all(isinstance(part, (int, float)) for part in value):
        return tuple(value)
    return value
