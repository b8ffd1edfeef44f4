"""A training loop for Keras models under any strategy, which goes on where a killed one stopped."""
