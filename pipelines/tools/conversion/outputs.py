"""What a conversion leaves beside the artifacts of all its runs: a link, and their metadata.

check_trainable(examples)      # an error where there is nothing to train with
point_to("out/", uri)          # out/latest -> artifacts/ShardBalancer/balanced_examples/4
with kept_metadata("s3://bucket/out") as path: ...
"""

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator

from components.report.inspection import inspect_dataset
from trainer_utils.format import InputError
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.storage import exists, join, read_bytes, write_atomically

__all__ = ["METADATA_FILE", "check_trainable", "kept_metadata", "point_to"]

METADATA_FILE = "metadata.sqlite"


def check_trainable(examples: str) -> None:
    """Refuses a dataset whose split `train` has no example left.

    Raises:
        InputError: the message has the counts of all splits.
    """
    manifest = inspect_dataset(examples).manifest
    counts = {} if manifest is None else manifest.accounting
    if "train" in counts and not counts["train"].written:
        found = "; ".join(f"{split}: {count}" for split, count in counts.items())
        raise InputError(
            f"split 'train': expected examples, got none ({found}). Give it a larger share "
            f"(splits=, --splits), or see {join(examples, REJECTS_FILE)}.",
            path=examples,
        )


def point_to(out: str, uri: str) -> None:
    """Makes `out/latest` lead to a dataset; nothing where the file system has no links."""
    from trainer_utils.dataset.location import LATEST  # brings numpy, which `--help` does without

    link, fresh = os.path.join(out, LATEST), os.path.join(out, f".{LATEST}-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        os.symlink(os.path.relpath(uri, out), fresh, target_is_directory=True)
        os.replace(fresh, link)


@contextlib.contextmanager
def kept_metadata(out: str) -> Iterator[str]:
    """The path of a local copy of the database in a bucket, which is put back after a good run."""
    place = join(out, METADATA_FILE)
    with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:
        path = os.path.join(folder, METADATA_FILE)
        if exists(place):
            with open(path, "wb") as copy:
                copy.write(read_bytes(place))
        yield path
        with (
            open(path, "rb") as stream,
            write_atomically(place, temporary_folder=out) as kept,
        ):
            kept.write(stream.read())
