"""Documents of tokens: one value of bytes in an example, unsigned little-endian integers.

    spec = TokenSpec(dtype="uint16", vocabulary_size=32_000, tokenizer="9f2c…")
    spec.decode(data)                # (tokens,) uint16

What all documents of a feature have in common is the feature's `extra["tokens"]`.
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.json_text import Json

_DTYPES = ("uint16", "uint32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenSpec:
    """What documents of tokens have in common.

    Args:
        dtype: `uint16`, or `uint32` where the vocabulary is larger than that holds.
        vocabulary_size: tokens are smaller than this.
        tokenizer: the SHA-256 of the tokenizer's file, in hexadecimal.
    """

    dtype: str
    vocabulary_size: int
    tokenizer: str

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise DatasetError(f"dtype: expected one of {', '.join(_DTYPES)}, got {self.dtype!r}")

    @classmethod
    def of(cls, *, vocabulary_size: int, tokenizer: str) -> "TokenSpec":
        """That of a tokenizer's documents."""
        dtype = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        return cls(dtype=dtype, vocabulary_size=vocabulary_size, tokenizer=tokenizer)

    @property
    def stored(self) -> np.dtype[Any]:
        """The dtype as it lies on the disk."""
        return np.dtype(self.dtype).newbyteorder("<")

    def decode(self, data: Any) -> npt.NDArray[Any]:
        """The tokens that bytes are, read-only."""
        return np.frombuffer(data, self.stored)

    def to_json(self) -> Json:
        """As `extra["tokens"]` has it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "TokenSpec":
        """Reads what `to_json` made; raises DatasetError, KeyError or TypeError."""
        return cls(**{field.name: value[field.name] for field in dataclasses.fields(cls)})
