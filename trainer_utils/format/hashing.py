"""Hash identities with a seed and a purpose, alone or many at a time.

keyed_hash(b"cats/1.jpg", seed=0, purpose="split") % 3
"""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def keyed_hash(identity: bytes, *, seed: int, purpose: str) -> int:
    """Return the 128-bit hash of an identity.

    Args:
        identity: the identity, such as a relative path.
        seed: a signed 64-bit seed.
        purpose: up to 16 ASCII characters that separate one use from another.

    Source: BLAKE2b with its own key and personalisation (RFC 7693).
    """
    return int.from_bytes(_keyed_blake2b(seed, purpose, identity).digest(), "little")


def keyed_digests(
    identities: Iterable[bytes], *, seed: int, purpose: str
) -> npt.NDArray[np.uint64]:
    """Return the `keyed_hash` of each identity: `(n, 2) uint64`, lower and upper 64 bits."""
    copied = _keyed_blake2b(seed, purpose).copy  # half the time of creating one
    digests = bytearray()
    for identity in identities:
        hashed = copied()
        hashed.update(identity)
        digests += hashed.digest()
    return np.frombuffer(digests, "<u8").reshape(-1, 2)


def remainders(digests: npt.NDArray[np.uint64], modulus: int) -> npt.NDArray[np.uint64]:
    """Return `keyed_hash(…) % modulus` for each of `keyed_digests`; `modulus` is below 2**48."""
    assert modulus < 1 << 48, "16 more bits would not fit into 64"
    divisor = np.uint64(modulus)
    remainder = np.zeros(len(digests), np.uint64)
    for half in (1, 0):
        for shift in (48, 32, 16, 0):
            part = digests[:, half] >> np.uint64(shift) & np.uint64(0xFFFF)
            remainder = (remainder << np.uint64(16) | part) % divisor
    return remainder


def _keyed_blake2b(seed: int, purpose: str, identity: bytes = b"") -> "hashlib.blake2b":
    key, person = seed.to_bytes(8, "little", signed=True), purpose.encode()
    return hashlib.blake2b(identity, digest_size=16, key=key, person=person)


def keyed_hashes(
    numbers: npt.NDArray[np.int64], *, identity: bytes, seed: int, purpose: str
) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each part of one thing, such as the rows of a file.

    Args:
        numbers: `(n,) int64`, the non-negative numbers of the parts.
        identity: the identity of the whole, as for `keyed_hash`.
        seed: a signed 64-bit seed.
        purpose: up to 16 ASCII characters that separate one use from another.
    """
    start = np.uint64(keyed_hash(identity, seed=seed, purpose=purpose) % 2**64)
    return splitmix64(start, numbers.astype(np.uint64) + np.uint64(1))


def splitmix64(
    start: np.uint64 | npt.NDArray[np.uint64],
    steps: np.uint64 | npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.uint64]:
    """Return the outputs of a generator with seed `start` after `steps` steps, `uint64`.

    Without steps, return the generator's finalizer, which is a bijection.
    Source: splitmix64 (Steele, Lea and Flood, 2014).
    """
    value: npt.NDArray[np.uint64] = np.asarray(start)
    if steps is not None:
        value = value + steps * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ value >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return value ^ value >> np.uint64(31)
