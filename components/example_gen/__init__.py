"""What the ExampleGens share: inputs, splits, settings, vocabularies, the last steps of a run."""
