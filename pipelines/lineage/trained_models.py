"""Which models and datasets are in the lineage of a dataset, for those who take records out of it.

trace_models("runs/ShardBalancer/balanced_examples/4", metadata=None).models
"""

import contextlib

from pipelines.lineage.description import describe_artifact
from pipelines.lineage.graph import DATASET_TYPE
from pipelines.tools.forget import Traced

__all__ = ["trace_models"]


def trace_models(uri: str, *, metadata: str | None) -> Traced:
    """The models that were made of a dataset, and the datasets before and after it.

    Args:
        uri: of the dataset.
        metadata: as of `describe_artifact`. Where no store tells of it, there is nothing to trace.
    """
    with contextlib.suppress(ValueError, OSError):
        found = describe_artifact(uri, metadata=metadata)
        related = [
            found.graph.artifacts[number]
            for number in (
                *found.graph.ancestors(found.artifact.id),
                *found.graph.descendants(found.artifact.id),
            )
        ]
        return Traced(
            models=[
                {"uri": model.uri, "type": model.type, "id": model.id, "state": model.state}
                for model in found.models
            ],
            relatives=[
                found.location.path_of(each.uri) for each in related if each.type == DATASET_TYPE
            ],
        )
    return Traced()
