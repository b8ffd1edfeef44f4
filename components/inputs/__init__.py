"""The input table: the inputs that a layout lists, their bytes, and rejects."""
