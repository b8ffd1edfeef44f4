"""Raw images, texts and sounds to a balanced dataset, in one call."""

METADATA_FILE = "metadata.sqlite"
"""In the folder of a conversion: its ML Metadata."""
