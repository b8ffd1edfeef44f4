"""TFX as one way to run `components.steps`: specs, drivers, executors, artifacts."""
