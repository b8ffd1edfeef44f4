"""The fingerprint of raw inputs, which an ExampleGen's cache key on Kubeflow depends on.

fingerprint_inputs("/mnt/photos")            # names, sizes, times; no file is read

The command runs before an ExampleGen of a TFX pipeline, with the same properties:
python -m components.kubeflow.input_state image '{"inputs": …}'
"""

import importlib
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from components.example_gen.input_selection import (
    ALL_FILES,
    InputSelection,
    SplitPattern,
    fingerprint,
    locate,
)
from trainer_utils.core.json_text import Json


def fingerprint_inputs(
    input_base: str,
    patterns: Mapping[str, str] | None = None,
    *,
    file_roots: Sequence[str] = (),
    siblings: bool = True,
    range_config: Any = None,
) -> str:
    """Return a hexadecimal string that changes if any input changes.

    Args:
        input_base: the folder, table or archive with the inputs.
        patterns: patterns of files by split; spans are resolved. None: all files.
        file_roots: additional folders to include.
        siblings: whether a file at `input_base` may refer to files next to it, as a list does.
        range_config: TFX's: the spans to consider.

    Raises:
        InputError: the inputs are missing, or cannot be listed.
    """
    splits = [SplitPattern(name, pattern) for name, pattern in sorted((patterns or {}).items())]
    located = locate(
        InputSelection(base=input_base, patterns=splits or ALL_FILES, range_config=range_config),
        is_source_file=lambda path: True,
        file_roots=file_roots,
        sees_siblings=siblings,
    )
    return fingerprint(located)


def fingerprint_of_tfx(kind: str, properties: Mapping[str, Json]) -> str:
    """Return the fingerprint for execution properties; `kind` is image, text or audio."""
    module = importlib.import_module("components.example_gen.settings")
    settings: Any = getattr(module, f"{kind.title()}Settings").from_properties(properties)
    config = json.loads(properties.get("input_config") or "{}")
    range_config = None
    if given := properties.get("range_config"):  # with spans, which TFX resolves
        from tfx.proto import range_config_pb2
        from tfx.utils import proto_utils

        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    return fingerprint_inputs(
        str(properties.get("input_base", "")),
        {split["name"]: split["pattern"] for split in config.get("splits", ())},
        file_roots=settings.file_roots,
        siblings=getattr(settings, "names_files", True),
        range_config=range_config,
    )


def main(arguments: Sequence[str]) -> None:
    """Write the fingerprint to the parameter's file that Kubeflow's executor input names."""
    kind, text = arguments
    executor_input = json.loads(text)
    fingerprint = fingerprint_of_tfx(kind, executor_input["inputs"].get("parameterValues", {}))
    logging.info("fingerprint: %s", fingerprint)
    path = executor_input["outputs"]["parameters"]["fingerprint"]["outputFile"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(fingerprint)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1:])
