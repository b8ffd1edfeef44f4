"""What in a dataset will hurt a training, and the cure.

    for check in dataset_checks("datasets/photos", workers=8):
        print(check.level, check.message, check.cure)

Nothing is changed, and no record is read.
"""

from pipelines.tools.doctor.checks import Check, checks_table, is_good
from pipelines.tools.doctor.dataset import dataset_checks

__all__ = ["Check", "checks_table", "dataset_checks", "is_good"]
