"""What datasets say of themselves, put beside what somebody else knows of the same artifacts.

graph, summaries = with_datasets(graph)     # settings of every step, parents that were forgotten

Kubeflow has a step's parameters as Kubeflow got them; a dataset's `lineage.json` has the settings
as the step understood them, and all steps before, also where Kubeflow's runs were deleted.
"""

import dataclasses

from pipelines.lineage.graph import DATASET_TYPE, Execution, Graph, Ports
from pipelines.lineage.manifests import load_datasets
from trainer_utils.format.origin import DatasetSummary

__all__ = ["with_datasets"]

_MAY_BE_DATASETS = ("Artifact", "Dataset", DATASET_TYPE)
_KEPT = "task_id"  # of the settings that Kubeflow tells, what no dataset knows


def with_datasets(graph: Graph) -> tuple[Graph, dict[int, DatasetSummary]]:
    """A graph with what its datasets say.

    Args:
        graph: of artifacts whose files may be there.

    Returns:
        The graph: steps with the settings that the datasets tell, and the steps and datasets before
        them that it had not. Then what their manifests say, by artifact.
    """
    places = _places(graph)
    known = load_datasets(among=sorted(places))
    artifacts = dict(graph.artifacts)
    numbers: dict[int, list[int]] = {}
    for number, dataset in known.graph.artifacts.items():
        if dataset.uri not in places:
            added = max(artifacts) + 1
            artifacts[added] = dataclasses.replace(dataset, id=added)
        numbers[number] = places.get(dataset.uri) or [added]
    executions = dict(graph.executions)
    for step in known.graph.executions.values():
        inputs = {name: tuple(numbers[i][0] for i in ids) for name, ids in step.inputs.items()}
        ((output, (dataset_number,)),) = step.outputs.items()
        for place in numbers[dataset_number]:
            if makers := graph.makers(place):
                executions[makers[0].id] = _completed(makers[0], step, inputs)
                continue
            added, outputs = max(executions, default=0) + 1, {output: (place,)}
            executions[added] = dataclasses.replace(step, id=added, inputs=inputs, outputs=outputs)
    summaries = {place: known.summaries[i] for i in known.summaries for place in numbers[i]}
    return Graph(artifacts, executions), summaries


def _places(graph: Graph) -> dict[str, list[int]]:
    """Artifacts that may be datasets, by uri: of several at one uri those first that were made."""
    found: dict[str, list[int]] = {}
    for number in sorted(graph.artifacts, key=lambda i: (not graph.makers(i), i)):
        artifact = graph.artifacts[number]
        if artifact.uri and artifact.type in _MAY_BE_DATASETS:
            found.setdefault(artifact.uri.rstrip("/"), []).append(number)
    return found


def _completed(maker: Execution, step: Execution, inputs: Ports) -> Execution:
    """An execution with a dataset's settings, and inputs that were not known to be such."""
    read = {number for ids in maker.inputs.values() for number in ids}
    ports = dict(maker.inputs)
    for name, ids in inputs.items():
        if added := tuple(number for number in ids if number not in read):
            ports[name] = (*ports.get(name, ()), *added)
    kept = {_KEPT: maker.settings[_KEPT]} if _KEPT in maker.settings else {}
    return dataclasses.replace(maker, settings={**step.settings, **kept}, inputs=ports)
