"""Register `DataFrame.tensorflow.to_tfr`, the accessor of TFRecorder, on import.

import pipelines.pandas
result = frame.tensorflow.to_tfr(output_dir="out/", num_shards=4)
dataset = trainer_utils.input_fn(result["tfrecord_dir"], "train")

A DataFrame has `split` (TRAIN, VALIDATION, TEST), optionally `image_uri`, and any other columns of
numbers and strings. Paths are absolute, or relative to the working directory.
"""

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject

_KINDS = {  # kinds by the names of the types in a schema_map of TFRecorder
    "ImageUri": "image",
    "ImageSupportedType": "image",
    "SplitKey": "split",
    "IntegerInput": "int",
    "IntegerLabel": "int",
    "FloatInput": "float",
    "StringInput": "string",
    "StringLabel": "label",
}


@pd.api.extensions.register_dataframe_accessor("tensorflow")
class TensorFlowAccessor:
    """The accessor `frame.tensorflow`."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def to_tfr(
        self,
        output_dir: str,
        schema_map: Mapping[str, Any] | None = None,
        runner: str = "DirectRunner",
        project: str | None = None,
        region: str | None = None,
        tfrecorder_wheel: str | None = None,
        dataflow_options: Mapping[str, Any] | None = None,
        job_label: str = "to-tfr",
        compression: str | None = "gzip",
        num_shards: int = 0,
        **options: Any,
    ) -> JsonObject:
        """Write the DataFrame as a dataset, by `pipelines.convert`.

        Args:
            output_dir: a folder for the artifacts.
            schema_map: types of TFRecorder by column, or kinds as in `columns` of `convert`;
                None: inferred from names and values.
            runner: `DirectRunner`, which runs in this process, or another runner of Beam.
            project: the project, a flag of the runner.
            region: the region, a flag of the runner.
            tfrecorder_wheel: an extra package for the workers, a flag of the runner.
            dataflow_options: further flags of the runner.
            job_label: the name of the job, a flag of the runner.
            compression: `gzip` or None.
            num_shards: number of shards of each split; 0: chosen by their size.
            options: settings of `convert`. Any number of bad images is accepted and counted,
                unless `max_reject_fraction` is set.

        Returns:
            `job_id`, the name of the runner; `metrics` with `rows`, `good_images` and `bad_images`
            (None without images); and `tfrecord_dir`, the uri of the dataset.

        Raises:
            ConfigError: a setting is invalid.
            InputError: the input is malformed or too much of it was rejected.
        """
        from pipelines.tools.conversion.convert import convert

        if num_shards:
            options["num_shards"] = num_shards
        if schema_map is not None:
            columns = {name: _kind_of(name, kind) for name, kind in schema_map.items()}
            options["columns"] = {**columns, **options.get("columns", {})}
        if "image_uri" in self._frame or "image" in options.get("columns", {}).values():
            options.setdefault("max_reject_fraction", 1.0)  # like TFRecorder, only count bad images
        if runner != "DirectRunner":
            beam = {"runner": runner, "job_name": job_label.replace("_", "-"), "project": project}
            beam |= {"region": region, "extra_package": tfrecorder_wheel}
            options["beam_pipeline_args"] = _flags({**beam, **(dataflow_options or {})})
        options["compression"] = compression or "none"
        result = convert(self._frame, output_dir, **options)
        has_images = result.kind == "image"
        return {
            "job_id": runner,
            "metrics": {
                "rows": result.found,
                "good_images": result.written if has_images else None,
                "bad_images": result.rejected if has_images else None,
            },
            "tfrecord_dir": os.path.abspath(result.uri),
        }


def _kind_of(name: str, kind: Any) -> str:
    if isinstance(kind, str):
        return _KINDS.get(kind, kind)
    type_name = getattr(kind, "__name__", type(kind).__name__)
    if type_name not in _KINDS:
        raise ConfigError.of(f"schema_map[{name!r}]", kind, allowed=f"one of {', '.join(_KINDS)}")
    return _KINDS[type_name]


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Return options by name as flags of Beam."""
    flags = []
    for name, value in options.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is not None and item is not False:
                flags.append(f"--{name}" if item is True else f"--{name}={item}")
    return flags
