"""Pipelines for Kubeflow Pipelines v2.

compile_pipeline("image", "pipeline.yaml", image="registry.example/tfx-shards:1",
                 pipeline_root="minio://mlpipeline/runs")
"""

from pipelines.kubeflow.compiler import CodeUpload, compile_pipeline

__all__ = ["CodeUpload", "compile_pipeline"]
