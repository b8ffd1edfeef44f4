"""Where a conversion leaves its newest dataset: a link beside the artifacts of all its runs.

newest_dataset("out/")         # 'out/artifacts/ShardBalancer/balanced_examples/4'
"""

import os

from trainer_utils.format.naming import MANIFEST_FILE

__all__ = ["LATEST", "newest_dataset"]

LATEST = "latest"


def newest_dataset(uri: str) -> str:
    """The dataset that a conversion's output folder leads to; of any other uri itself.

    Args:
        uri: of a dataset, of `out` or of `out/latest`; local or not.
    """
    uri = uri.rstrip("/") or uri
    if "://" in uri:
        return uri
    link = uri
    if os.path.basename(uri) != LATEST or not os.path.islink(uri):
        if os.path.exists(os.path.join(uri, MANIFEST_FILE)):
            return uri
        link = os.path.join(uri, LATEST)
    if not os.path.islink(link):
        return uri
    return os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
