"""Adapt `trainer_utils.reading.batches.Batches` to each framework.

There is one thin module per framework, imported when it is first used. All yield the same batches.
"""
