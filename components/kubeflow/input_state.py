"""The fingerprint of raw inputs, on which the cache key of an ExampleGen hangs on Kubeflow.

fingerprint_inputs("/mnt/photos")            # names, sizes, times; no file is read

As a command it is the step before an ExampleGen of a TFX pipeline, whose properties it is given:
python -m components.kubeflow.input_state image '{"inputs": …}'
"""

import importlib
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from components.example_gen.inputs import (
    ALL_FILES,
    InputSelection,
    SplitPattern,
    fingerprint,
    locate,
)
from trainer_utils.format.json_text import Json


def fingerprint_inputs(
    input_base: str,
    patterns: Mapping[str, str] | None = None,
    *,
    image_roots: Sequence[str] = (),
    siblings: bool = True,
    range_config: Any = None,
) -> str:
    """A hexadecimal text that is another one where an input is.

    Args:
        input_base: where they are.
        patterns: by split; spans are resolved. None: all files.
        image_roots: folders outside of it that count too.
        siblings: whether a file at `input_base` may name others beside it, as a list does.
        range_config: TFX's: which spans to consider.

    Raises:
        InputError: the inputs are missing, or cannot be listed.
    """
    splits = [SplitPattern(name, one) for name, one in sorted((patterns or {}).items())]
    located = locate(
        InputSelection(base=input_base, patterns=splits or ALL_FILES, range_config=range_config),
        is_source_file=lambda path: True,
        image_roots=image_roots,
        sees_siblings=siblings,
    )
    return fingerprint(located)


def fingerprint_of_tfx(kind: str, properties: Mapping[str, Json]) -> str:
    """The same of an ExampleGen's execution properties: `kind` is image, text or audio."""
    module = importlib.import_module("components.example_gen.settings")
    settings: Any = getattr(module, f"{kind.title()}Settings").from_properties(properties)
    config = json.loads(properties.get("input_config") or "{}")
    range_config = None
    if given := properties.get("range_config"):  # of spans, which TFX resolves
        from tfx.proto import range_config_pb2
        from tfx.utils import proto_utils

        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    return fingerprint_inputs(
        str(properties.get("input_base", "")),
        {split["name"]: split["pattern"] for split in config.get("splits", ())},
        image_roots=settings.file_roots,
        siblings=getattr(settings, "names_files", True),
        range_config=range_config,
    )


def main(arguments: Sequence[str]) -> None:
    """Writes the fingerprint where Kubeflow's executor input wants the step's one parameter."""
    kind, text = arguments
    executor_input = json.loads(text)
    found = fingerprint_of_tfx(kind, executor_input["inputs"].get("parameterValues", {}))
    logging.info("fingerprint: %s", found)
    path = executor_input["outputs"]["parameters"]["fingerprint"]["outputFile"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(found)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1:])
