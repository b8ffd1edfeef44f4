"""A container's command for a step of a TFX pipeline on open-source Kubeflow.

python -m components.kubeflow.tfx_step --types '{"inputs": {…}}' \\
    --path inputs examples /minio/… -- --executor_class_path … --json_serialized_invocation_args …

After `--` come the arguments of TFX's own command for Vertex AI, which runs the executor. Before
that, what open-source Kubeflow does not tell it is filled in: the artifacts' TFX types, paths
that every step can open, and spans. No object store is written
to through `tf.io.gfile`, so that there are none of the empty objects that stand for folders.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence

from components.kubeflow.dataset_location import (
    ROOT_VARIABLE,
    check_fetched,
    find_dataset,
    place_dataset,
)
from components.kubeflow.dataset_records import (
    VERSION_KEY,
    record_output,
    split_versions,
)
from components.kubeflow.executor_input import (
    parse_paths,
    plain_metadata,
    short_metadata,
)
from components.kubeflow.images import ENVIRONMENT_FLAG
from components.kubeflow.pod_folders import (
    PAGE_OUTPUT,
    hand_over,
    page_folder,
    run_step,
    temporary_folder,
    writable_file,
)
from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["DRIVER_FLAG", "PATH_FLAG", "STEP_COMMAND", "TYPES_FLAG", "main"]

STEP_COMMAND = ("python", "-m", "components.kubeflow.tfx_step")
TYPES_FLAG, PATH_FLAG, DRIVER_FLAG = "--types", "--path", "--resolve-inputs"
_INVOCATION, _INPUTS_SPEC = "json_serialized_invocation_args", "json_serialized_inputs_spec_args"
_EXAMPLES = "tfx.Examples"

_Types = Mapping[str, Mapping[str, str]]


def main(arguments: Sequence[str]) -> int:
    """Runs the step; 0 where it worked, 1 for bad data or settings. Other errors are raised."""
    ours, theirs, beam_arguments = _parse(arguments)
    return run_step(lambda: _run(ours, theirs, beam_arguments))


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, argparse.Namespace, list[str]]:
    place = list(arguments).index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog=" ".join(STEP_COMMAND), allow_abbrev=False)
    parser.add_argument(TYPES_FLAG, type=json.loads, required=True)
    parser.add_argument(PATH_FLAG, nargs=3, action="append", default=[])
    parser.add_argument(DRIVER_FLAG, action="store_true")
    parser.add_argument(ENVIRONMENT_FLAG, help="for Kubeflow's cache alone")
    ours = parser.parse_args(arguments[:place])
    tfx_parser = argparse.ArgumentParser(prog="TFX's arguments", allow_abbrev=False)
    tfx_parser.add_argument("--executor_class_path", required=True)
    tfx_parser.add_argument(f"--{_INVOCATION}", required=True)
    tfx_parser.add_argument(f"--{_INPUTS_SPEC}")
    theirs, beam_arguments = tfx_parser.parse_known_args(arguments[place + 1 :])
    return ours, theirs, beam_arguments


def _run(ours: argparse.Namespace, theirs: argparse.Namespace, beam_arguments: list[str]) -> None:
    document = json.loads(getattr(theirs, _INVOCATION))
    paths = parse_paths(ours.path)
    root = os.environ.get(ROOT_VARIABLE, "")
    versions = _take_versions(document)
    datasets = [name for name, title in ours.types["outputs"].items() if title == _EXAMPLES]
    stored = _uris(document, datasets)
    output_file = document["outputs"]["outputFile"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            temporary_folder(path for (side, _), path in paths.items() if side == "outputs")
        )
        # TensorFlow, which comes with these, asks for the folder.
        from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor
        from tfx.orchestration.kubeflow.v2.file_based_example_gen import driver

        held = document["outputs"]["outputFile"] = writable_file(output_file)
        elsewhere = _localize(document, ours.types, paths, root, stack)
        setattr(theirs, _INVOCATION, json.dumps(document))
        if ours.resolve_inputs:
            driver.main(theirs)  # leaves its findings where the executor looks for parameters
            _take_over(document)
            setattr(theirs, _INVOCATION, json.dumps(document))
        kubeflow_v2_run_executor.main((theirs, beam_arguments))
        for name, uri in stored.items():
            path = paths["outputs", name]
            record_output(path, uri, elsewhere.get(name, path), root=root, versions=versions)
        hand_over(output_file, _given_back(held, elsewhere, dict.fromkeys(datasets, versions)))


def _take_versions(document: Mapping[str, Json]) -> list[str]:
    """What the step's raw inputs' fingerprints say; TFX does not see the parameter."""
    inputs = document.get("inputs", {})
    given = [inputs.get("parameterValues", {}).pop(VERSION_KEY, "")]
    for group in inputs.get("artifacts", {}).values():
        artifacts = group.get("artifacts", ())
        given += [artifact.get("metadata", {}).get(VERSION_KEY, "") for artifact in artifacts]
    return split_versions(given)


def _uris(document: Mapping[str, Json], outputs: Sequence[str]) -> dict[str, str]:
    """Where Kubeflow keeps outputs."""
    groups = document["outputs"].get("artifacts", {})
    return {name: groups[name]["artifacts"][0]["uri"] for name in outputs if name in groups}


def _localize(
    document: Mapping[str, Json],
    types: _Types,
    paths: Mapping[tuple[str, str], str],
    root: str,
    stack: contextlib.ExitStack,
) -> dict[str, str]:
    """Sets type, path and metadata of each artifact; returns the datasets that go elsewhere.

    What `stack` holds in the end puts pages in their places.
    """
    elsewhere = {}
    for side in ("inputs", "outputs"):
        groups = document.get(side, {}).get("artifacts", {})
        for name in groups.keys() - types[side].keys():
            del groups[name]  # `executor-logs`, which Kubeflow may add, is the launcher's matter
        for name, group in groups.items():
            for artifact in group.get("artifacts", ()):
                title, path = types[side][name], paths[side, name]
                artifact["type"] = {"schemaTitle": title}
                artifact["metadata"] = plain_metadata(artifact.get("metadata", {}))
                if side == "inputs":
                    if title == _EXAMPLES:
                        check_fetched(name, path, artifact["uri"])
                    artifact["uri"] = find_dataset(path)
                    continue
                if (name, title) == PAGE_OUTPUT:
                    artifact["uri"] = stack.enter_context(page_folder(path))
                    continue
                place = place_dataset(path, artifact["uri"], root if title == _EXAMPLES else "")
                if place != path:
                    elsewhere[name] = place
                artifact["uri"] = place
                _make_folders(title, path, place)
    return elsewhere


def _take_over(document: Mapping[str, Json]) -> None:
    """Gives the outputs the metadata, span and version, that TFX's driver found for them."""
    outputs = document["outputs"]
    with open(outputs["outputFile"], encoding="utf-8") as stream:
        found = json.load(stream)
    for name, group in found.get("artifacts", {}).items():
        metadata = group["artifacts"][0].get("metadata", {})
        outputs["artifacts"][name]["artifacts"][0]["metadata"].update(metadata)


def _make_folders(title: str, path: str, uri: str) -> None:
    """Makes an output's folder, as TFX's own orchestrators do; of a value the one it is in."""
    from tfx.dsl.io import fileio
    from tfx.orchestration.kubeflow.v2 import compiler_utils
    from tfx.types.value_artifact import ValueArtifact
    from tfx.utils import import_utils

    kind = import_utils.import_class_by_path(compiler_utils.TITLE_TO_CLASS_PATH.get(title, title))
    if issubclass(kind, ValueArtifact):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return
    os.makedirs(path, exist_ok=True)
    fileio.makedirs(uri)


def _given_back(
    held: str, elsewhere: Mapping[str, str], versions: Mapping[str, list[str]]
) -> JsonObject:
    """The launcher's document, with metadata alone: uris stay as the launcher knows them."""
    with open(held, encoding="utf-8") as stream:
        document: JsonObject = json.load(stream)
    for name, group in document.get("artifacts", {}).items():
        for artifact in group.get("artifacts", ()):
            artifact.pop("uri", None)
            artifact.pop("name", None)
            artifact["metadata"] = short_metadata(artifact.get("metadata", {}))
            if name in elsewhere:
                artifact["metadata"]["dataset_uri"] = elsewhere[name]
            if versions.get(name):
                artifact["metadata"][VERSION_KEY] = "\n".join(versions[name])
    return document


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
