"""Convert raw images, texts and audio files to a balanced dataset in one call."""

METADATA_FILE = "metadata.sqlite"
"""The file of the ML Metadata in the folder of a conversion."""
