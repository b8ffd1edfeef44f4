"""Tokenize text with the tokenizer of a setting: tokenizers, SentencePiece or tiktoken.

No special tokens are added, nothing is truncated, and nothing is downloaded.
"""

import dataclasses
import functools
import hashlib
import os
import posixpath
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trainer_utils.core.errors import ConfigError
from trainer_utils.format.tensors import TokenSpec
from trainer_utils.storage import exists, read_bytes
from trainer_utils.storage.host_errors import is_host_error

_TEXTS_AT_ONCE = 1024  # limits memory: their tokens are Python integers for a moment
_ALLOWED = (
    "the .json file of a tokenizer of tokenizers, the .model file of SentencePiece, or the name or "
    ".tiktoken file of an encoding of tiktoken"
)
_loading = threading.Lock()

_Encode = Callable[[list[str]], Sequence[Sequence[int]]]
_Spans = Sequence[tuple[int, int]]  # characters: the first, and the one after the last
_Locate = Callable[[list[str]], Sequence[tuple[Sequence[int], _Spans]]]


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """A loaded tokenizer."""

    spec: TokenSpec  # the vocabulary size, the digest and the stored type of the tokens
    encode_texts: _Encode  # returns the tokens of each text
    locate_tokens: _Locate  # returns the tokens of each text, and the characters of each token

    def encode_chats(self, texts: pa.Array, spans: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the tokens of each text as bytes, and a mask of the tokens in spans.

        Args:
            texts: strings; a null has no tokens.
            spans: one flat list per text, in order: for each span, its first character and the one
                after its last.
        """
        tokens, masks = [], []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            chunk = [text or "" for text in texts.slice(start, _TEXTS_AT_ONCE).to_pylist()]
            bounds = spans.slice(start, _TEXTS_AT_ONCE).to_pylist()
            for (ids, places), chat_bounds in zip(self.locate_tokens(chunk), bounds, strict=True):
                tokens.append(np.array(ids, self.spec.stored).tobytes())
                masks.append(_mask(np.array(places, np.int64).reshape(-1, 2), chat_bounds or []))
        return pa.array(tokens, pa.binary()), pa.array(masks, pa.list_(pa.int64()))

    def encode(self, texts: pa.Array) -> pa.Array:
        """Return the tokens of each text as bytes; a null has no tokens."""
        tokens = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            chunk = [text or "" for text in texts.slice(start, _TEXTS_AT_ONCE).to_pylist()]
            tokens += [
                np.array(ids, self.spec.stored).tobytes() for ids in self.encode_texts(chunk)
            ]
        return pa.array(tokens, pa.binary())


def _mask(places: npt.NDArray[np.int64], bounds: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return 1 for each token with a character in a span, else 0, as `(tokens,) int64`."""
    mask = np.zeros(len(places), np.int64)
    for begin, end in zip(bounds[::2], bounds[1::2], strict=True):
        mask |= (places[:, 0] < end) & (places[:, 1] > np.maximum(begin, places[:, 0]))
    return mask


@functools.lru_cache(maxsize=4)
def same_tokenizer(place: str, spec: TokenSpec) -> Tokenizer:
    """Return the tokenizer of a conversion, loaded once per worker.

    Args:
        place: the tokenizer's file or name.
        spec: the tokenizer's spec when the conversion began.

    Raises:
        ConfigError: the tokenizer cannot be loaded, or it has changed since.
    """
    tokenizer = load_tokenizer(place)
    if tokenizer.spec != spec:
        rule = "the same file as when the conversion began"
        raise ConfigError.of("tokenizer", place, allowed=rule)
    return tokenizer


def load_tokenizer(place: str) -> Tokenizer:
    """Load a tokenizer.

    Args:
        place: path or uri of the tokenizer's file, or the name of a tiktoken encoding.

    Raises:
        ConfigError: the tokenizer does not exist or is invalid, its library is not installed, or a
            download would be needed.
    """
    suffix, load = os.path.splitext(place)[1], _loader_of(place)
    is_file = suffix in (".json", ".model", ".tiktoken")
    if is_file and not exists(place):
        raise ConfigError.of("tokenizer", place, allowed=f"{_ALLOWED}, got no such file")
    data = read_bytes(place) if is_file else b""
    try:
        with _loading:
            size, digest, encode, locate = load(posixpath.basename(place), data)
    except ImportError as error:
        library, cure = tokenizer_package(place), "Run pip install 'tfx-shards[tokens]'"
        rule = f"{library} installed ({error})"
        raise ConfigError.of("tokenizer", place, allowed=rule, advice=cure) from error
    except Exception as error:  # libraries raise various errors for unknown files
        if isinstance(error, ConfigError) or is_host_error(error):
            raise
        raise ConfigError.of("tokenizer", place, allowed=f"{_ALLOWED} ({error})") from error
    return Tokenizer(TokenSpec.of(vocabulary_size=size, tokenizer=digest), encode, locate)


def tokenizer_package(place: str) -> str:
    """Return the name of the package that reads a tokenizer."""
    return _loader_of(place).__name__.removeprefix("_of_")


def _loader_of(place: str) -> Callable[[str, bytes], tuple[int, str, _Encode, _Locate]]:
    suffix = os.path.splitext(place)[1]
    return {".json": _of_tokenizers, ".model": _of_sentencepiece}.get(suffix, _of_tiktoken)


def _of_tokenizers(name: str, data: bytes) -> tuple[int, str, _Encode, _Locate]:
    """Load a `tokenizer.json`; return its vocabulary size, digest, encoder and token locator."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(data.decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    batch = getattr(
        tokenizer, "encode_batch_fast", tokenizer.encode_batch
    )  # since 0.20, without offsets

    def encode(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in batch(texts, add_special_tokens=False)]

    def locate(texts: list[str]) -> list[tuple[Sequence[int], _Spans]]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    return max(tokenizer.get_vocab().values()) + 1, hashlib.sha256(data).hexdigest(), encode, locate


def _of_sentencepiece(name: str, data: bytes) -> tuple[int, str, _Encode, _Locate]:
    """Load a SentencePiece model; return the same as `_of_tokenizers`."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=data)

    def encode(texts: list[str]) -> Any:
        return processor.encode(texts, out_type=int, num_threads=1)

    def locate(texts: list[str]) -> list[tuple[Sequence[int], _Spans]]:
        located: Any = processor.encode(texts, out_type="proto", num_threads=1)
        return [
            (
                [piece.id for piece in located_text.pieces],
                [(p.begin, p.end) for p in located_text.pieces],
            )
            for located_text in located
        ]

    return processor.vocab_size(), hashlib.sha256(data).hexdigest(), encode, locate


def _of_tiktoken(name: str, data: bytes) -> tuple[int, str, _Encode, _Locate]:
    """Load a tiktoken encoding from its file, or from tiktoken's cache."""
    import tiktoken
    import tiktoken.load

    encoding, known = name.removesuffix(".tiktoken"), tiktoken.list_encoding_names()
    if encoding not in known:
        raise ConfigError.of("tokenizer", name, allowed=f"{_ALLOWED}, of {', '.join(known)}")
    digest = hashlib.sha256()
    usual = {name: getattr(tiktoken.load, name) for name in ("read_file", "read_file_cached")}

    def download(url: str) -> bytes:
        rule = f"an encoding in tiktoken's cache, since nothing is downloaded ({url})"
        cure = f"Download it beforehand, or pass its file: tokenizer='…/{encoding}.tiktoken'"
        raise ConfigError.of("tokenizer", encoding, allowed=rule, advice=cure)

    def read(url: str, expected_hash: str | None = None) -> bytes:
        content: bytes = data or usual["read_file_cached"](url, expected_hash)
        if expected_hash not in (None, hashlib.sha256(content).hexdigest()):
            raise ConfigError.of("tokenizer", name, allowed=f"a file of SHA-256 {expected_hash}")
        digest.update(content)
        return content

    constructors = tiktoken.registry.ENCODING_CONSTRUCTORS or {}
    vars(tiktoken.load).update(read_file=download, read_file_cached=read)
    try:
        encoder = tiktoken.Encoding(**constructors[encoding]())
    finally:
        vars(tiktoken.load).update(usual)

    def encode(texts: list[str]) -> Any:
        return encoder.encode_ordinary_batch(texts, num_threads=1)

    def locate(texts: list[str]) -> list[tuple[Sequence[int], _Spans]]:
        located = list[tuple[Sequence[int], _Spans]]()
        for text, ids in zip(texts, encode(texts), strict=True):
            begins = encoder.decode_with_offsets(ids)[1] if ids else []
            ends = [*begins[1:], len(text)][: len(begins)]  # tokens of one character share it
            pairs = zip(begins, ends, strict=True)
            located.append((ids, [(begin, max(end, begin + 1)) for begin, end in pairs]))
        return located

    return encoder.n_vocab, digest.hexdigest(), encode, locate
