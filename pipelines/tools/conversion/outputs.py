"""Where a conversion leaves its newest dataset: a link beside the artifacts of all its runs.

point_to("out/", uri)          # out/latest -> artifacts/ShardBalancer/balanced_examples/4
"""

import contextlib
import os
import uuid

__all__ = ["METADATA_FILE", "point_to"]

METADATA_FILE = "metadata.sqlite"


def point_to(out: str, uri: str) -> None:
    """Makes `out/latest` lead to a dataset; nothing where the file system has no links."""
    from trainer_utils.dataset.location import LATEST  # brings numpy, which `--help` does without

    link, fresh = os.path.join(out, LATEST), os.path.join(out, f".{LATEST}-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        os.symlink(os.path.relpath(uri, out), fresh, target_is_directory=True)
        os.replace(fresh, link)
