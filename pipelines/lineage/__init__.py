"""Which run made an artifact, from what and how, and what was made from it.

    print(describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4"))
    print(list_runs("grpc://host:8080"))

Stores of ML Metadata are read and never written; those of any TFX or Kubeflow pipeline will do.
Where there is none, datasets of ours tell it themselves, which needs no ML Metadata. Neither TFX
nor TensorFlow is imported, unless something lies on `gs://` and the like.
"""

from pipelines.lineage.graph import Lineage
from pipelines.lineage.lookup import Run, Runs, describe_artifact, list_runs

__all__ = ["Lineage", "Run", "Runs", "describe_artifact", "list_runs"]
