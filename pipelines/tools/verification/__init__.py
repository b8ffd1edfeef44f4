"""Reads a whole dataset and reports every problem, not only the first.

Of each shard: size and checksum of the file, both checksums of each record, their number, the
order-free sum of the contents, and the record index. Of the dataset: missing and extra files, the
checksums of the manifest and of all others, Datum's JSON, the accounting and rejects.
Without a manifest it checks what it can, and reports a manifest that was there and is missing.
"""

from pipelines.tools.verification.shards import Problem
from pipelines.tools.verification.verify import Verification, verify_dataset

__all__ = ["Problem", "Verification", "verify_dataset"]
