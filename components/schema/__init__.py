"""What is said of a dataset to TFX, Datum, TFDS and others."""
