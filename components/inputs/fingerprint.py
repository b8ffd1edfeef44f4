"""Sum facts about inputs to fingerprints that do not depend on their order."""

from collections.abc import Iterable, Sequence

import numpy as np

from components.inputs.input_table import Blob
from trainer_utils.format.hashing import keyed_digests


def sum_facts(facts: Iterable[tuple[tuple[object, ...], object]]) -> int:
    """Return the fingerprint of inputs. Fingerprints of parts add up to the whole's, modulo 2**128.

    The sum does not depend on the order of the inputs, nor on the worker that read each.

    Args:
        facts: the identity of each input, and its checksum, or None if it was not read.
    """
    # `repr` distinguishes the names "a" and "b" from the name "a, b". The sum of no inputs is 0.
    texts = (repr(fact).encode() for fact in facts)
    digests = keyed_digests(texts, seed=0, purpose="inputs")
    parts: list[int] = digests.view("<u4").sum(axis=0, dtype=np.uint64).tolist()
    return sum(part << 32 * place for place, part in enumerate(parts)) % 2**128


def sum_blobs(facts: Iterable[tuple[Blob, int | None]], roots: Sequence[str] = ()) -> int:
    """Return `sum_facts` of files and parts of files, each with its CRC-32C or None.

    Args:
        facts: blobs and their checksums.
        roots: folders outside of the input base. They are removed from the start of paths, so that
            the sum is independent of their location.
    """
    folders = [f"{root.rstrip('/')}/" for root in roots]

    def name(path: str) -> str:
        return path.removeprefix(next((f for f in folders if path.startswith(f)), ""))

    return sum_facts(((name(blob.path), *blob[1:]), crc) for blob, crc in facts)
