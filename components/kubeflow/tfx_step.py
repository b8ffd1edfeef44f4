"""The container command for a step of a TFX pipeline on open-source Kubeflow.

python -m components.kubeflow.tfx_step --artifact inputs examples tfx.Examples /minio/… \\
    -- --executor_class_path … --json_serialized_invocation_args …

After `--` come the arguments of TFX's own command for Vertex AI, which runs the executor. Before
that, this command fills in values that open-source Kubeflow does not provide: the artifacts' TFX
types, paths that every step can open, and spans. It never writes to an object store through
`tf.io.gfile`, which would create empty objects for folders.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from components.kubeflow.artifacts import (
    PAGE_OUTPUT,
    find_dataset,
    page_folder,
    place_dataset,
    short_metadata,
    write_reference,
)
from trainer_utils.core.json_text import Json, JsonObject

STEP_COMMAND = ("python", "-m", "components.kubeflow.tfx_step")
ARTIFACT_FLAG, ROOT_FLAG, DRIVER_FLAG = "--artifact", "--dataset-root", "--resolve-inputs"
VERSION_PARAMETER = "input_version"  # only for Kubeflow's cache: TFX does not see it
_INVOCATION, _INPUTS_SPEC = "json_serialized_invocation_args", "json_serialized_inputs_spec_args"
_EXAMPLES = "tfx.Examples"
_KUBEFLOW_KEYS = ("display_name", "store_session_info")  # keys that Kubeflow adds

# By "inputs" or "outputs" and name: an artifact's TFX type and its local path.
_Given = Mapping[tuple[str, str], tuple[str, str]]


def main(arguments: Sequence[str]) -> None:
    """Run the step."""
    step_options, executor_options, beam_arguments = _parse_arguments(arguments)
    os.environ.setdefault("HOME", tempfile.gettempdir())  # for users unknown to the image
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor
    from tfx.orchestration.kubeflow.v2.file_based_example_gen import driver

    document = json.loads(getattr(executor_options, _INVOCATION))
    inputs, outputs = document.get("inputs", {}), document["outputs"]
    inputs.get("parameterValues", {}).pop(VERSION_PARAMETER, None)
    given: _Given = {
        (side, name): (title, path) for side, name, title, path in step_options.artifact
    }
    _fill_inputs(inputs.get("artifacts", {}), given)
    with contextlib.ExitStack() as stack:
        root = step_options.dataset_root
        elsewhere = _fill_outputs(outputs.get("artifacts", {}), given, root, stack)
        setattr(executor_options, _INVOCATION, json.dumps(document))
        if step_options.resolve_inputs:
            driver.main(executor_options)  # writes its results to the executor's parameters
            _add_metadata_of_driver(outputs)
            setattr(executor_options, _INVOCATION, json.dumps(document))
        kubeflow_v2_run_executor.main((executor_options, beam_arguments))
    _finish_answer(outputs["outputFile"], given, elsewhere)


def _parse_arguments(
    arguments: Sequence[str],
) -> tuple[argparse.Namespace, argparse.Namespace, list[str]]:
    """Return the options of this command and of TFX's command, and the arguments for Beam."""
    place = list(arguments).index("--")
    parser = argparse.ArgumentParser(prog=" ".join(STEP_COMMAND), allow_abbrev=False)
    parser.add_argument(ARTIFACT_FLAG, nargs=4, action="append", default=[])
    parser.add_argument(ROOT_FLAG, default="")
    parser.add_argument(DRIVER_FLAG, action="store_true")
    tfx_parser = argparse.ArgumentParser(prog="TFX's arguments", allow_abbrev=False)
    tfx_parser.add_argument("--executor_class_path", required=True)
    tfx_parser.add_argument(f"--{_INVOCATION}", required=True)
    tfx_parser.add_argument(f"--{_INPUTS_SPEC}")
    return parser.parse_args(arguments[:place]), *tfx_parser.parse_known_args(
        arguments[place + 1 :]
    )


def _add_metadata_of_driver(outputs: JsonObject) -> None:
    """Add the metadata that the driver has written for each output artifact."""
    for name, group in _read(outputs["outputFile"]).get("artifacts", {}).items():
        (artifact,) = outputs["artifacts"][name]["artifacts"]
        artifact["metadata"].update(group["artifacts"][0].get("metadata", {}))


def _finish_answer(path: str, given: _Given, elsewhere: Mapping[str, str]) -> None:
    """Rewrite the executor's answer to the launcher.

    Args:
        path: the file of the answer.
        given: the type and the path of each artifact.
        elsewhere: the uris of datasets that are not at the path that the launcher expects.
    """
    answer = _read(path)
    for name, group in answer.get("artifacts", {}).items():
        for artifact in group.get("artifacts", ()):
            del artifact["uri"], artifact["name"]  # so that the launcher keeps its own
            artifact["metadata"] = short_metadata(artifact.get("metadata", {}))
            if name in elsewhere:
                artifact["metadata"]["dataset_uri"] = elsewhere[name]
                write_reference(given["outputs", name][1], elsewhere[name])
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


def _fill_inputs(groups: dict[str, Any], given: _Given) -> None:
    """Set the type, the metadata in TFX's form, and a readable location for each input artifact."""
    for name, group in groups.items():
        for artifact in group.get("artifacts", ()):
            title, path = given["inputs", name]
            artifact["type"] = {"schemaTitle": title}
            artifact["metadata"] = _plain_metadata(artifact.get("metadata", {}))
            artifact["uri"] = find_dataset(path, artifact["uri"]) if title == _EXAMPLES else path


def _fill_outputs(
    groups: dict[str, Any],
    given: _Given,
    root: str,
    stack: contextlib.ExitStack,
) -> dict[str, str]:
    """Fill in the output artifacts; return the datasets that are written elsewhere, by name.

    Closing `stack` moves pages to their final places.
    """
    elsewhere = {}
    for name in groups.keys() - {name for _, name in given}:
        del groups[name]  # `executor-logs`, which Kubeflow may add, is handled by the launcher
    for name, group in groups.items():
        (artifact,) = group["artifacts"]
        title, path = given["outputs", name]
        place = place_dataset(path, artifact["uri"], root if title == _EXAMPLES else "")
        if place != path:
            elsewhere[name] = place
        artifact |= {"type": {"schemaTitle": title}, "uri": place}
        artifact["metadata"] = _plain_metadata(artifact.get("metadata", {}))
        if (name, title) == PAGE_OUTPUT:
            artifact["uri"] = stack.enter_context(page_folder(path))
        else:
            _make_folders(title, path, place)
    return elsewhere


def _make_folders(title: str, path: str, uri: str) -> None:
    """Create an output's folder, as TFX's own orchestrators do; for a value, its parent folder."""
    from tfx.dsl.io import fileio
    from tfx.orchestration.kubeflow.v2 import compiler_utils
    from tfx.types.value_artifact import ValueArtifact
    from tfx.utils import import_utils

    kind = import_utils.import_class_by_path(compiler_utils.TITLE_TO_CLASS_PATH.get(title, title))
    is_value = issubclass(kind, ValueArtifact)
    os.makedirs(os.path.dirname(path) if is_value else path, exist_ok=True)
    if not is_value:
        fileio.makedirs(uri)


def _plain_metadata(metadata: Mapping[str, Json]) -> JsonObject:
    """Return an artifact's own metadata, where Kubeflow wraps lists as `{"list": […]}`."""
    plain = {}
    for name, value in metadata.items():
        is_wrapped = isinstance(value, Mapping) and [*value] in (["list"], ["struct"])
        if name not in _KUBEFLOW_KEYS:
            plain[name] = next(iter(value.values())) if is_wrapped else value
    return plain


def _read(path: str) -> JsonObject:
    with open(path, encoding="utf-8") as stream:
        document: JsonObject = json.load(stream)
    return document


if __name__ == "__main__":
    main(sys.argv[1:])
