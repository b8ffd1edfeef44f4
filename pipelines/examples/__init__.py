"""Ready pipelines, their trainers, and the demonstration."""
