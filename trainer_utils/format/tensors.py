"""Store arrays as one bytes value in an example: tensors of any rank and dtype, or tokens.

A tensor's bytes are a `TensorProto`, as `tf.io.serialize_tensor` makes it. The common properties of
a feature's tensors are its `extra["tensor"]`, a `TensorSpec`. Tokens are unsigned little-endian
integers with a `TokenSpec` in `extra["tokens"]`.
Source: `tensorflow/core/framework/{tensor,tensor_shape,types}.proto`.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.core.decoding import decode
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import Json
from trainer_utils.format.example import DELIMITED, Buffer, read_fields, read_varint, varint

# The numbers of DataType. Both str and bytes are `string`.
TENSOR_DTYPES = {
    **{"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7},
    **{"complex64": 8, "int64": 9, "bool": 10, "bfloat16": 14, "uint16": 17, "complex128": 18},
    **{"float16": 19, "uint32": 22, "uint64": 23},
}
_NAMES = {number: name for name, number in TENSOR_DTYPES.items()}
_DTYPE, _SHAPE, _CONTENT, _STRINGS = 1, 2, 4, 8  # fields of TensorProto
_DIM, _SIZE = 2, 1  # fields of TensorShapeProto, and of its Dim
_TEXT = re.compile(r"(?P<dtype>\w+)\[(?P<shape>(?:\d+|\?)(?:,(?:\d+|\?))*)?\]")
_TOKEN_DTYPES = ("uint16", "uint32")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """The common dtype and shape of a feature's tensors; `str()` is `float16[3,?]`.

    `dtype` is one of `TENSOR_DTYPES`. In `shape`, None marks an axis along which sizes differ.
    """

    dtype: str
    shape: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if self.dtype not in TENSOR_DTYPES:
            known = ", ".join(TENSOR_DTYPES)
            raise DatasetError(f"dtype: expected one of {known}, got {self.dtype!r}")
        if not all(size is None or (type(size) is int and size >= 0) for size in self.shape):
            raise DatasetError(f"shape: expected sizes or None, got {self.shape!r}")

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "TensorSpec":
        """Return the spec of an array; raise DatasetError if TensorFlow has no such dtype."""
        kind = array.dtype.kind
        if kind in "SU" or (kind == "O" and all(isinstance(v, (bytes, str)) for v in array.flat)):
            return cls("string", array.shape)
        if array.dtype.name not in TENSOR_DTYPES:
            said = f"expected one of {', '.join(TENSOR_DTYPES)}, got {array.dtype}"
            raise DatasetError(f"array: {said}. Cast it first: array.astype('float32').")
        return cls(array.dtype.name, array.shape)

    @classmethod
    def parse(cls, text: str) -> "TensorSpec":
        """Parse a spec from the output of `str()`; `int8[]` is a scalar."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise DatasetError(f"expected a dtype and a shape such as 'float16[3,?]', got {text!r}")
        sizes = match["shape"].split(",") if match["shape"] else ()
        return cls(match["dtype"], tuple(None if s == "?" else int(s) for s in sizes))

    def __str__(self) -> str:
        sizes = ("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{','.join(sizes)}]"

    @property
    def is_fixed(self) -> bool:
        """Whether all tensors have the same shape."""
        return None not in self.shape

    @property
    def num_elements(self) -> int:
        """Number of elements in each tensor, if the shape is fixed."""
        return math.prod(size or 0 for size in self.shape)

    def merge(self, other: "TensorSpec") -> "TensorSpec":
        """Return the spec for the tensors of both; raise DatasetError if dtype or rank differ."""
        if (self.dtype, len(self.shape)) != (other.dtype, len(other.shape)):
            raise DatasetError(f"expected tensors of one dtype and rank, as {self}, got {other}")
        pairs = zip(self.shape, other.shape, strict=True)
        return TensorSpec(self.dtype, tuple(a if a == b else None for a, b in pairs))

    def to_json(self) -> Json:
        """Return the spec as stored in `extra["tensor"]`."""
        return {"dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def from_json(cls, value: Any) -> "TensorSpec":
        """Parse the output of `to_json`; raise DatasetError or DecodeError."""
        spec: TensorSpec = decode(cls, value, takes_unknown=True)
        return spec


def tensor_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a `TensorProto` before its elements."""
    dims = b""
    for size in shape:
        inner = b"\x08" + varint(size) if size else b""
        dims += b"\x12" + varint(len(inner)) + inner
    head = b"\x08" + varint(TENSOR_DTYPES[dtype]) + b"\x12" + varint(len(dims)) + dims
    content = math.prod(shape) * item_bytes(dtype)
    return head + b"\x22" + varint(content) if content and dtype != "string" else head


def item_bytes(dtype: str) -> int:
    """Return the size of an element; 0 for strings, since their sizes differ."""
    if dtype == "string":
        return 0
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def encode_tensor(array: npt.NDArray[Any]) -> bytes:
    """Encode a `TensorProto` like `tf.io.serialize_tensor`; raise the errors of `TensorSpec.of`."""
    spec = TensorSpec.of(array)
    head = tensor_header(spec.dtype, array.shape)
    if spec.dtype != "string":
        little = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
        return head + np.ascontiguousarray(array, little).tobytes()
    values = (v.encode() if isinstance(v, str) else bytes(v) for v in array.flat)
    return head + b"".join(b"\x42" + varint(len(value)) + value for value in values)


def decode_tensor(data: Buffer) -> npt.NDArray[Any]:
    """Decode a `TensorProto` with its elements in `tensor_content` to a read-only array.

    Strings become an array of bytes objects, and bfloat16 has the dtype of the package `ml_dtypes`.
    """
    dtype, shape, content, texts = 0, [], b"", []
    try:
        for number, wire, start, stop in read_fields(data, 0, len(data)):
            if number == _DTYPE:
                dtype, _ = read_varint(data, start, stop)
            elif number == _SHAPE and wire == DELIMITED:
                shape = [*_sizes(data, start, stop)]
            elif number == _CONTENT:
                content = bytes(data[start:stop])
            elif number == _STRINGS:
                texts.append(bytes(data[start:stop]))
        if _NAMES[dtype] == "string":
            return array_of(texts, object).reshape(shape)
        return np.frombuffer(content, numpy_dtype(_NAMES[dtype])).reshape(shape)
    except (DatasetError, KeyError, ValueError, IndexError) as error:
        said = f"expected a TensorProto, got {bytes(data[:40])!r}…"
        raise DatasetError(f"tensor: {said}: {error}") from error


def _sizes(data: Buffer, start: int, stop: int) -> Iterator[int]:
    for number, _, first, last in read_fields(data, start, stop):
        if number == _DIM:
            size = 0
            for field, _, begin, end in read_fields(data, first, last):
                if field == _SIZE:
                    size, _ = read_varint(data, begin, end)
            yield size


def array_of(values: Sequence[Any], dtype: Any) -> npt.NDArray[Any]:
    """Return `(values,)`. In an object array, lists stay lists and bytes keep their final zeros."""
    array = np.empty(len(values), dtype)
    array[:] = values
    return array


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a name; object for strings."""
    if name == "string":
        return np.dtype(object)
    if name == "bfloat16":
        import ml_dtypes  # installed with TensorFlow and JAX; only needed for this dtype

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenSpec:
    """The common properties of token documents.

    Args:
        dtype: `uint16`, or `uint32` for a larger vocabulary.
        vocabulary_size: the size of the vocabulary; all tokens are smaller.
        tokenizer: the hexadecimal SHA-256 of the tokenizer's file.
    """

    dtype: str
    vocabulary_size: int
    tokenizer: str

    def __post_init__(self) -> None:
        if self.dtype not in _TOKEN_DTYPES:
            rule = f"one of {', '.join(_TOKEN_DTYPES)}"
            raise DatasetError(f"dtype: expected {rule}, got {self.dtype!r}")

    @classmethod
    def of(cls, *, vocabulary_size: int, tokenizer: str) -> "TokenSpec":
        """Return the spec for documents of a tokenizer."""
        dtype = "uint16" if vocabulary_size <= 1 << 16 else "uint32"
        return cls(dtype=dtype, vocabulary_size=vocabulary_size, tokenizer=tokenizer)

    @property
    def stored(self) -> np.dtype[Any]:
        """Dtype as stored on disk."""
        return np.dtype(self.dtype).newbyteorder("<")

    def decode(self, data: Any) -> npt.NDArray[Any]:
        """Return the tokens in some bytes as a read-only array."""
        return np.frombuffer(data, self.stored)

    def to_json(self) -> Json:
        """Return the spec as stored in `extra["tokens"]`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> "TokenSpec":
        """Parse the output of `to_json`; raise DatasetError or DecodeError."""
        spec: TokenSpec = decode(cls, value, takes_unknown=True)
        return spec
