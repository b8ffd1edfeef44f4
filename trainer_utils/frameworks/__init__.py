"""Each framework's way to read: a thin adapter round `trainer_utils.reading.batches.Batches`.

A module a framework, each imported where it is asked for: the same batches in all of them.
"""
