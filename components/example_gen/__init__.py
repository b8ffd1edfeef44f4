"""Code shared by the ExampleGens: inputs, splits, settings, and the steps of a conversion."""
