"""Records of datasets that lie in Kubeflow's own store, by which it is seen that one is gone.

TFX_SHARDS_RECORD_ROOT=minio://mlpipeline/records          # a variable of each step
record_stored("minio://mlpipeline/v2/…/examples", versions=["5f0c…"])
records_root("/mnt/datasets")      # a dataset_root has its own records

Kubeflow takes a step from its cache whether or not the files of its artifacts are still there. The
launcher copies these with rights of its own, which a step does not have: so the place of the
records is named by whoever gives the steps the rights to look into the store as well.
"""

import os
from collections.abc import Sequence

from components.kubeflow.dataset_location import check_dataset_root
from components.kubeflow.dataset_records import DatasetRecord, current_version, record_dataset
from trainer_utils.format import InputError

__all__ = ["RECORD_VARIABLE", "find_version", "record_stored", "records_root"]

RECORD_VARIABLE = "TFX_SHARDS_RECORD_ROOT"


def records_root(dataset_root: str) -> str:
    """Where records are: below a `dataset_root`, else where the variable says, else nowhere.

    Raises:
        ConfigError: the place is relative, or a url of no object store.
    """
    check_dataset_root(dataset_root)
    given = os.environ.get(RECORD_VARIABLE, "")
    check_dataset_root(given, RECORD_VARIABLE)
    return dataset_root or given


def record_stored(uri: str, *, versions: Sequence[str]) -> None:
    """Records a dataset that the launcher is about to copy to Kubeflow's store.

    Args:
        uri: where it will be.
        versions: of the inputs, on which its cache key hangs.

    Raises:
        ConfigError: the place of the records is not allowed.
        InputError: it cannot be written to.
    """
    root = records_root("")
    if not root or not versions:
        return
    try:
        record_dataset(root, DatasetRecord(uri=uri), input_versions=versions)
    except OSError as error:
        raise _unreachable(root, error) from error


def find_version(dataset_root: str, fingerprint: str) -> str:
    """The version of inputs, another one where a dataset that was made of them is gone.

    Args:
        dataset_root: of the datasets; may be empty.
        fingerprint: of the inputs.

    Raises:
        ConfigError: the place of the records is not allowed.
        InputError: records or datasets cannot be looked at.
    """
    root = records_root(dataset_root)
    if not root:
        return fingerprint
    try:
        return current_version(root, fingerprint)
    except OSError as error:
        raise _unreachable(root, error) from error


def _unreachable(root: str, error: OSError) -> InputError:
    return InputError(
        f"records of datasets in {root!r}: {error}. Give the steps the rights of the store, as by "
        f"--secret, or leave {RECORD_VARIABLE} out."
    )
