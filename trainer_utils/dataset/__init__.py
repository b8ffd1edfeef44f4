"""A dataset, opened wherever it is and whoever wrote it.

from trainer_utils.dataset import open_dataset
"""
