"""Raw inputs: their kind, the settings of their conversion, and how to read them as a dataset."""
