"""Ready pipelines, their trainers, and the demonstrations."""
