"""A training loop for Keras models under any strategy, which resumes interrupted runs."""
