"""Store media files: unchanged if TensorFlow reads them, otherwise converted."""
