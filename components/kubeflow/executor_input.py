"""What Kubeflow's launcher gives a step and takes from it: two JSON documents.

step = ExecutorInput.parse(text, paths={("inputs", "examples"): "/minio/…", …})
step.parameters, step.inputs["examples"].path, step.outputs["examples"].path
step.write_output({"examples": {"records": 600}})

Source: `ExecutorInput` and `ExecutorOutput` of Kubeflow's `pipeline_spec.proto`; the launcher reads
the second at `outputs.outputFile` and merges its metadata into the artifact.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence

from components.kubeflow.pod_folders import hand_over, hand_over_value
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject

__all__ = [
    "KUBEFLOW_KEYS",
    "ExecutorInput",
    "StepArtifact",
    "parse_paths",
    "plain_metadata",
    "short_metadata",
]

KUBEFLOW_KEYS = ("display_name", "store_session_info")  # that Kubeflow adds to an artifact's own
_WRAPPERS = ("list", "struct")
_MOST_CHARACTERS = 4096
_UNFILLED = "{{$"


@dataclasses.dataclass(frozen=True)
class StepArtifact:
    """One artifact of a step.

    Args:
        uri: where Kubeflow keeps it.
        path: where it lies in the pod: the launcher copies inputs there, and outputs from there.
        metadata: that its producer gave it.
        name: that Kubeflow gave it.
    """

    uri: str
    path: str
    metadata: Mapping[str, Json]
    name: str = ""


@dataclasses.dataclass(frozen=True)
class ExecutorInput:
    """What a step is given.

    Args:
        parameters: by name; whole numbers are int.
        inputs, outputs: artifacts by name; an optional input that is not given is not there.
        output_file: where the launcher looks for the metadata of the outputs.
        parameter_files: where it looks for parameters that the step gives, by name.
    """

    parameters: Mapping[str, Json]
    inputs: Mapping[str, StepArtifact]
    outputs: Mapping[str, StepArtifact]
    output_file: str
    parameter_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    component: str = ""

    @classmethod
    def parse(
        cls, text: str, *, paths: Mapping[tuple[str, str], str], component: str = ""
    ) -> "ExecutorInput":
        """From the JSON of `{{$}}`.

        Args:
            paths: of artifacts in the pod, by side (`inputs`, `outputs`) and name.

        Raises:
            ConfigError: it is no such JSON.
        """
        try:
            document = json.loads(text)
            given = document.get("inputs", {})
            wanted = document["outputs"]
            return cls(
                parameters={
                    name: _whole(value) for name, value in given.get("parameterValues", {}).items()
                },
                inputs=_artifacts("inputs", given, paths),
                outputs=_artifacts("outputs", wanted, paths),
                output_file=wanted["outputFile"],
                parameter_files={
                    name: one["outputFile"] for name, one in wanted.get("parameters", {}).items()
                },
                component=component,
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                "executor input: expected the JSON that Kubeflow's launcher puts for {{$}}, got "
                f"{text[:200]!r} ({type(error).__name__}: {error})"
            ) from error

    @property
    def output_paths(self) -> list[str]:
        """Where the launcher takes the outputs from, parameters last."""
        return [*(output.path for output in self.outputs.values()), *self.parameter_files.values()]

    def write_output(self, metadata: Mapping[str, Mapping[str, Json]]) -> None:
        """Hands metadata to the launcher, by output of the step.

        Names and uris stay those that were given; kfp.local, which merges nothing, wants them
        said again.
        """
        document: JsonObject = {"artifacts": {}}
        for output, values in metadata.items():
            given = self.outputs[output]
            artifact = {"name": given.name, "uri": given.uri, "metadata": short_metadata(values)}
            document["artifacts"][output] = {"artifacts": [artifact]}
        hand_over(self.output_file, document)

    def write_parameter(self, name: str, text: str) -> None:
        """Gives the value of a parameter that the step has for others."""
        hand_over_value(self.parameter_files[name], name, text)


def _artifacts(
    side: str, document: Mapping[str, Json], paths: Mapping[tuple[str, str], str]
) -> dict[str, StepArtifact]:
    found = {}
    for name, group in document.get("artifacts", {}).items():
        if not group.get("artifacts"):
            continue
        first = group["artifacts"][0]
        found[name] = StepArtifact(
            uri=first["uri"],
            path=paths.get((side, name), first["uri"]),
            metadata=plain_metadata(first.get("metadata", {})),
            name=first.get("name", name),
        )
    return found


def plain_metadata(metadata: Mapping[str, Json]) -> JsonObject:
    """An artifact's own metadata: without Kubeflow's, and lists and mappings unpacked.

    Kubeflow keeps a list as `{"list": […]}` and a mapping as `{"struct": {…}}`.
    """
    plain = {}
    for name, value in metadata.items():
        if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in _WRAPPERS:
            value = next(iter(value.values()))
        if name not in KUBEFLOW_KEYS:
            plain[name] = value
    return plain


def short_metadata(metadata: Mapping[str, Json]) -> JsonObject:
    """Metadata without long texts, such as vocabularies, which are in the dataset's files too.

    The next step gets the metadata of its inputs as one argument, for which Linux has 128 KiB.
    """
    return {
        name: value
        for name, value in metadata.items()
        if not (isinstance(value, str) and len(value) > _MOST_CHARACTERS)
    }


def _whole(value: Json) -> Json:
    """A value of JSON, its whole numbers as int: Kubeflow holds all as float64."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    if not isinstance(value, float) or not value.is_integer():
        return value
    if abs(value) >= 2**53:
        raise ConfigError.of(
            "parameter", value, allowed="a number below 2^53, which float64 holds exactly"
        )
    return int(value)


def parse_paths(given: Iterable[Sequence[str]]) -> dict[tuple[str, str], str]:
    """Paths by side and name, from the arguments `side name path`.

    The launcher leaves the placeholder of an input that is not given as it stands; such are left
    out.
    """
    return {(side, name): path for side, name, path in given if not path.startswith(_UNFILLED)}
