"""Descriptions of a dataset for TFX, Datum, TFDS and other programs."""
