"""Ready pipelines, and a demonstration that needs nothing but this repository.

from pipelines.image_pipeline import create_image_pipeline
"""
