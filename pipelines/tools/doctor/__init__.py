"""What on this machine, or in a dataset, will hurt, and the cure.

    for check in examine("datasets/photos", workers=8, strategy="multi-worker"):
        print(check.level, check.message, check.cure)

Nothing is changed, and TensorFlow is imported only where there is a GPU that it should see.
"""

from collections.abc import Sequence

from pipelines.tools.doctor.checks import Check, checks_table, is_good
from pipelines.tools.doctor.cluster import cluster_checks, workers_of
from pipelines.tools.doctor.dataset import dataset_checks
from pipelines.tools.doctor.machine import machine_checks
from pipelines.tools.doctor.packages import package_checks

__all__ = ["Check", "checks_table", "examine", "is_good"]


def examine(
    uri: str | None = None, *, workers: int | None = None, strategy: str | None = None
) -> Sequence[Check]:
    """Runs all checks.

    Args:
        uri: of a dataset; None: the machine alone.
        workers: that will read it; None: as `TF_CONFIG` says, else 1.
        strategy: of tf.distribute, such as `mirrored` or `multi-worker`; None: not known.

    Raises:
        ConfigError: there is no such strategy.
    """
    workers = workers or workers_of()
    checks = [*package_checks(), *cluster_checks(workers, strategy), *machine_checks()]
    if uri is not None:
        checks += dataset_checks(uri, workers=workers)
    return checks
