"""TFX as one way to run what `components.steps` does: specs, drivers, executors, artifacts."""
