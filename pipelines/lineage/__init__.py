"""Look up the lineage of an artifact: the run that made it, its inputs, and its descendants.

    print(describe_artifact("runs/artifacts/ShardBalancer/balanced_examples/4"))
    print(list_runs("grpc://host:8080"))

Stores of ML Metadata are only read, and may come from any TFX or Kubeflow pipeline. Without a store
the lineage comes from the files of datasets written by tfx-shards, which does not need ML Metadata.
Neither TFX nor TensorFlow is imported, except for uris such as `gs://`.
"""

from pipelines.lineage.graph import Lineage
from pipelines.lineage.lookup import Run, Runs, describe_artifact, list_runs

__all__ = ["Lineage", "Run", "Runs", "describe_artifact", "list_runs"]
