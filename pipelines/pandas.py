"""`DataFrame.tensorflow.to_tfr`, as TFRecorder has it: importing this module is all there is to it.

import pipelines.pandas
result = frame.tensorflow.to_tfr(output_dir="out/", num_shards=4)
dataset = trainer_utils.input_fn(result["tfrecord_dir"], "train")

A frame has `split` (TRAIN, VALIDATION, TEST), `image_uri` and any other columns of numbers and
texts, or no image at all. Paths may be absolute, or relative to the working directory.
"""

import os
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject

_KINDS = {  # of TFRecorder's schema_map, by the names of its types
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
    """What `frame.tensorflow` is."""

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
        """Writes the frame as a dataset, by `pipelines.convert`.

        Args:
            output_dir: a folder for the artifacts.
            schema_map: TFRecorder's types by column, or kinds as `columns` of `convert` has them;
                None: by names and values.
            runner: `DirectRunner`, all in this process, or any other of Beam.
            project, region, tfrecorder_wheel, dataflow_options, job_label: flags of that runner.
            compression: `gzip` or None.
            num_shards: of each split; 0: as many as their size asks for.
            options: of `convert`; bad images are counted, however many, unless
                `max_reject_fraction` is one of them.

        Returns:
            `job_id`, the runner's name; `metrics`: `rows`, `good_images`, `bad_images` (of a frame
            without images None); and `tfrecord_dir`, the dataset's uri.

        Raises:
            ConfigError, InputError: as `convert`.
        """
        from pipelines.tools.conversion.convert import convert

        if num_shards:
            options["num_shards"] = num_shards
        if schema_map is not None:
            columns = {name: _kind_of(name, kind) for name, kind in schema_map.items()}
            options["columns"] = {**columns, **options.get("columns", {})}
        if "image_uri" in self._frame or "image" in options.get("columns", {}).values():
            options.setdefault("max_reject_fraction", 1.0)  # bad images are counted, as there
        if runner != "DirectRunner":
            beam = {"runner": runner, "job_name": job_label.replace("_", "-"), "project": project}
            beam |= {"region": region, "extra_package": tfrecorder_wheel}
            options["beam_pipeline_args"] = _flags({**beam, **(dataflow_options or {})})
        made = convert(self._frame, output_dir, compression=compression or "none", **options)
        has_images = made.kind == "image"
        return {
            "job_id": runner,
            "metrics": {
                "rows": made.found,
                "good_images": made.written if has_images else None,
                "bad_images": made.rejected if has_images else None,
            },
            "tfrecord_dir": os.path.abspath(made.uri),
        }


def _kind_of(name: str, kind: Any) -> str:
    if isinstance(kind, str):
        return _KINDS.get(kind, kind)
    found = getattr(kind, "__name__", type(kind).__name__)
    if found not in _KINDS:
        raise ConfigError.of(f"schema_map[{name!r}]", kind, allowed=f"one of {', '.join(_KINDS)}")
    return _KINDS[found]


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Beam's flags of options by name."""
    flags = []
    for name, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None and one is not False:
                flags.append(f"--{name}" if one is True else f"--{name}={one}")
    return flags
