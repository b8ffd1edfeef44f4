"""The kfp components that our image runs: functions that kfp compiles.

    task = image_example_gen(input_base="/data/photos", splits={"train": 9, "eval": 1})
    shard_balancer(examples=task.outputs["examples"], num_shards=8)

The components with settings are in `step_functions`, which is generated. Their constants are
checked when they are called.
"""

# ruff: noqa: B006  kfp copies defaults into the package

from kfp import dsl

from components.kubeflow.component import component, default_image
from components.kubeflow.step_functions import (
    audio_example_gen,
    dataset_audit,
    dataset_report,
    image_example_gen,
    schema_export,
    shard_balancer,
    text_example_gen,
)

__all__ = [
    "audio_example_gen",
    "dataset_audit",
    "dataset_report",
    "default_image",
    "image_example_gen",
    "input_fingerprint",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
]


@component
def input_fingerprint(
    fingerprint: dsl.OutputPath(str),  # type: ignore[valid-type]
    input_base: str,
    input_patterns: dict = {},
    file_roots: list = [],
    siblings: bool = True,
) -> None:
    """Compute the fingerprint of raw inputs, so that Kubeflow can cache the steps that use them.

    It always runs, and reads no file: a million files take about 15 seconds. Pass its output as the
    `input_version` of an ExampleGen.

    Args:
        input_base: the folder, table or archive of the inputs, as for the ExampleGen.
        input_patterns: patterns by split, as for the ExampleGen. Spans are resolved, so that a new
            span is a change.
        file_roots: additional folders that a list may refer to, as for the ExampleGen.
        siblings: whether a file at input_base may refer to files next to it, as a list does. False
            for a table, so that the other files of its folder do not count.

    Returns:
        fingerprint: a string that changes if any input changes.
    """
    from components.kubeflow.input_state import fingerprint_inputs

    state = fingerprint_inputs(input_base, input_patterns, file_roots=file_roots, siblings=siblings)
    with open(fingerprint, "w") as stream:
        stream.write(state)
