"""What becomes of media files: kept as they are where TensorFlow reads them, else converted."""
