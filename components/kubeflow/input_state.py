"""The fingerprint of raw inputs, on which the cache key of an ExampleGen hangs on Kubeflow.

fingerprint_inputs({"input_base": "/mnt/photos"})            # names, sizes, times; no file is read
fingerprint_inputs({"input_base": "/mnt/photos", "contents": True})

Parameters are those of the component `input_fingerprint`; or, where there is `component`, those of
an ExampleGen as TFX's specification for Kubeflow has them.
"""

import concurrent.futures
import importlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from components.common.fingerprint import combine_facts
from components.common.settings import ComponentSettings
from components.example_gen.inputs import (
    ALL_FILES,
    LocatedInputs,
    SplitPattern,
    fingerprint,
    locate,
)
from components.kubeflow.images import COMPONENT
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.storage import InputFile, join, open_for_reading

__all__ = ["fingerprint_inputs"]

_THREADS = 8
_FILES_AT_ONCE = 4096
_BLOCK_BYTES = 4 << 20


def fingerprint_inputs(parameters: Mapping[str, Json]) -> str:
    """A hexadecimal text that is another one where an input is.

    Raises:
        InputError: the inputs are missing, or cannot be listed.
        ConfigError: a setting is not allowed.
    """
    selected = _of_tfx(parameters) if parameters.get(COMPONENT) else _of_kubeflow(parameters)
    base = str(parameters.get("input_base", ""))
    located = locate(base, is_source_file=lambda path: True, **selected)
    return _of_contents(located) if parameters.get("contents") else fingerprint(located)


def _of_kubeflow(parameters: Mapping[str, Json]) -> JsonObject:
    """What of the folder is an input, as `locate` takes it."""
    patterns = parameters.get("input_patterns") or {}
    return {
        "patterns": [SplitPattern(name, patterns[name]) for name in sorted(patterns)] or ALL_FILES,
        "image_roots": parameters.get("image_roots") or (),
        "sees_siblings": bool(parameters.get("siblings", True)),
    }


def _of_tfx(parameters: Mapping[str, Json]) -> JsonObject:
    kind = parameters[COMPONENT]
    module = importlib.import_module("components.example_gen.settings")
    declared: type[ComponentSettings] = getattr(module, f"{kind.title()}Settings")
    settings: Any = declared.from_properties(parameters)
    config = json.loads(parameters.get("input_config") or "{}")
    patterns = [SplitPattern(split["name"], split["pattern"]) for split in config.get("splits", ())]
    range_config = None
    if given := parameters.get("range_config"):  # of spans, which TFX resolves
        from tfx.proto import range_config_pb2
        from tfx.utils import proto_utils

        range_config = range_config_pb2.RangeConfig()
        proto_utils.json_to_proto(given, range_config)
    return {
        "patterns": patterns or ALL_FILES,
        "range_config": range_config,
        "image_roots": settings.image_roots,
        "sees_siblings": getattr(settings, "names_files", True),
    }


def _of_contents(located: LocatedInputs) -> str:
    """Of names and bytes, whatever the times: it is the same for a copy."""
    groups: list[tuple[str, str, Mapping[str, InputFile]]]
    groups = [
        (f"{pattern.name}\0{pattern.pattern}", located.base, pattern.files)
        for pattern in located.patterns
    ]
    groups += [(root.base, root.base, root.files) for root in located.image_roots]
    return combine_facts(
        ((header, path, size), crc)
        for header, base, files in groups
        for path, size, crc in _read(base, files)
    )


def _read(base: str, files: Mapping[str, InputFile]) -> Iterator[tuple[str, int, int | str | None]]:
    """Path, size and CRC-32C of each file; of one that cannot be read what is the matter."""

    def read(file: InputFile) -> tuple[str, int, int | str | None]:
        return file.path, file.size, str(file.problem) if file.problem else _crc(base, file.path)

    left = iter(files.values())
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(itertools.islice(left, _FILES_AT_ONCE)):
            yield from pool.map(read, batch)


def _crc(base: str, path: str) -> int | str:
    crc = 0
    try:
        with open_for_reading(join(base, path)) as stream:
            while block := stream.read(_BLOCK_BYTES):
                crc = extend_crc32c(crc, block)
    except OSError as error:
        return error.strerror or type(error).__name__
    return crc
