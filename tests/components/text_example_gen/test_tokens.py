"""Test the tokens of texts against the tokenizer libraries, text by text."""

import hashlib
import json
import os
import pydoc
import textwrap
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from trainer_utils.core.errors import ConfigError, TfxShardsError
from trainer_utils.dataset import open_dataset
from trainer_utils.reading import packing

TEXTS = [
    *filter(None, map(str.strip, (pydoc.__doc__ or "").split("\n"))),
    *textwrap.wrap(textwrap.__doc__ or "", 20),
    "naïve Straße ﬁ 漢字 🙂",
    " ",
    "",
]
NAME = "small.json"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Write tokenizers with 300 and 70,000 tokens, trained on a few texts; return the folder."""
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("tokenizers")
    for name, size in ((NAME, 300), ("large.json", 70_000)):
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=300,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        made.train_from_iterator(TEXTS, trainer)
        made.add_tokens([f"<{n}>" for n in range(size - made.get_vocab_size())])
        made.enable_truncation(3)  # must be ignored in a dataset
        made.enable_padding(length=3)
        made.save(str(folder / name))
    return folder


def lines(texts: list[str]) -> str:
    return "".join(json.dumps({"text": text, "stars": 3}) + "\n" for text in texts)


def own_tokens(path: Path) -> dict[str, list[int]]:
    """Return the library's own tokens of each text."""
    import tokenizers

    found = tokenizers.Tokenizer.from_file(str(path))
    found.no_truncation()
    found.no_padding()
    return {text: found.encode(text, add_special_tokens=False).ids for text in TEXTS}


@pytest.mark.parametrize(
    ("name", "dtype", "keep_text"), [(NAME, "<u2", True), ("large.json", "<u4", False)]
)
def test_tokens_equal_the_librarys_tokens(convert, files, name, dtype, keep_text, subtests):
    path = files / name
    dataset = convert({"t.jsonl": lines(TEXTS)}, tokenizer=str(path), keep_text=keep_text)
    expected = own_tokens(path)
    rows = dataset.by_id()
    assert len(rows) == len(TEXTS)
    for number, text in enumerate(TEXTS, 1):
        with subtests.test(number=number):
            row = rows[f"t.jsonl:{number}"]
            assert np.frombuffer(row["tokens"][0], dtype).tolist() == expected[text]
            assert ("text" in row) is keep_text
            assert row["stars"] == [3]


def test_dataset_names_its_tokenizer_and_reads_as_integers(convert, files):
    out = convert({"t.jsonl": lines(TEXTS)}, tokenizer=str(files / NAME)).uri
    opened = open_dataset(str(out))
    digest = hashlib.sha256((files / NAME).read_bytes()).hexdigest()
    assert opened.features["tokens"].extra["tokens"] == {
        "dtype": "uint16",
        "vocabulary_size": 300,
        "tokenizer": digest,
    }
    assert opened.manifest is not None
    assert opened.manifest.config["tokenizer"] == NAME
    expected = own_tokens(files / NAME)
    for split in opened.records:
        batches = trainer_utils.iterate(str(out), split, batch_size=4, shuffle=False)
        for batch in batches:
            for text, tokens in zip(batch["text"], batch["tokens"], strict=True):
                wanted = expected[text.decode()]
                assert tokens.dtype == np.int64
                assert tokens[: len(wanted)].tolist() == wanted
                assert not tokens[len(wanted) :].any()


@pytest.mark.parametrize("min_long", [0, 1000])  # documents that are decoded in part, or whole
@pytest.mark.parametrize("name", [NAME, "large.json"])
def test_stored_tokens_can_be_packed(convert, files, monkeypatch, name, min_long):
    monkeypatch.setattr(packing, "_MIN_LONG", min_long)
    out = str(convert({"t.jsonl": lines(TEXTS)}, tokenizer=str(files / name), keep_text=False).uri)
    pack = trainer_utils.PackOptions(length=16, strategy="best_fit", eos=299)
    found = [
        row["tokens"][row["segment_ids"] == number].tolist()
        for split in open_dataset(out).records
        for row in trainer_utils.iterate(out, split, batch_size=None, pack=pack)
        for number in range(1, row["segment_ids"].max() + 1)
    ]
    own = [
        [*tokens, 299] for tokens in map(own_tokens(files / name).get, TEXTS) if tokens is not None
    ]
    cut = [tokens[n : n + 16] for tokens in own for n in range(0, len(tokens), 16)]
    assert sorted(found) == sorted(cut)
    if name == NAME:
        with pytest.raises(ConfigError, match="eos"):
            trainer_utils.iterate(out, "train", pack=trainer_utils.PackOptions(eos=300))


def test_rows_without_a_text_have_no_tokens(convert, files):
    texts = '{"text": "a text", "n": 1}\n{"n": 2}\n'
    dataset = convert({"t.jsonl": texts}, tokenizer=str(files / NAME))
    assert dataset.by_id()["t.jsonl:2"]["tokens"] == [b""]


def test_changed_tokenizer_changes_the_dataset_digest(convert, files, tmp_path):
    path = tmp_path / "own.json"
    uris = []
    for name in (NAME, "large.json"):
        path.write_bytes((files / name).read_bytes())
        os.utime(path, (1, 1))
        uris.append(str(convert({"t.jsonl": lines(TEXTS)}, tokenizer=str(path)).uri))
    assert len({open_dataset(uri).digest for uri in uris}) == 2
    with pytest.raises(TfxShardsError, match="tokens"):
        trainer_utils.iterate(uris, "train", features="tokens")
    assert next(iter(trainer_utils.iterate(uris, "train", features="text"))).size


def test_sentencepiece_tokens_equal_the_librarys_tokens(convert, tmp_path, subtests):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "corpus.txt").write_text("\n".join(TEXTS))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"),
        model_prefix=str(tmp_path / "own"),
        vocab_size=200,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = tmp_path / "own.model"
    dataset = convert({"t.jsonl": lines(TEXTS)}, tokenizer=str(path))
    found = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for number, text in enumerate(TEXTS, 1):
        with subtests.test(number=number):
            tokens = dataset.by_id()[f"t.jsonl:{number}"]["tokens"][0]
            assert np.frombuffer(tokens, "<u2").tolist() == found.encode(text)


RANKS = "".join(f"{bytes([n]).hex()} {n}\n" for n in range(256))


@pytest.fixture
def tiny(monkeypatch, tmp_path) -> str:
    """Register a byte-level tiktoken encoding with a file to download; return the file's URL."""
    tiktoken = pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "kept"))
    url = "https://localhost:1/tiny.tiktoken"

    def constructor() -> dict[str, object]:
        data = tiktoken.load.read_file_cached(url, hashlib.sha256(RANKS.encode()).hexdigest())
        ranks = {bytes.fromhex(a): int(b) for a, b in map(str.split, data.decode().splitlines())}
        return {
            "name": "tiny",
            "pat_str": r"\S+|\s+",
            "mergeable_ranks": ranks,
            "special_tokens": {"<|end|>": 256},
        }

    tiktoken.list_encoding_names()
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "tiny", constructor)
    return url


def test_tiktoken_reads_cache_or_file_and_never_downloads(tiny, tmp_path, subtests):
    import pyarrow as pa

    from components.tables.tokenizing import load_tokenizer

    with pytest.raises(ConfigError, match="tokenizer"):
        load_tokenizer("tiny")
    path = tmp_path / "tiny.tiktoken"
    path.write_text(RANKS)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / hashlib.sha1(tiny.encode()).hexdigest()).write_text(RANKS)
    specs = []
    for place in (str(path), "tiny"):
        with subtests.test(place=place):
            tokenizer = load_tokenizer(place)
            specs.append(tokenizer.spec)
            (made,) = tokenizer.encode(pa.array(["a <|end|> é"])).to_pylist()
            assert np.frombuffer(made, "<u2").tolist() == list("a <|end|> é".encode())
    assert specs[0] == specs[1]
    assert specs[0].tokenizer == hashlib.sha256(RANKS.encode()).hexdigest()
    assert specs[0].vocabulary_size == 257
    path.write_text(RANKS + "00 256\n")
    with pytest.raises(ConfigError, match="tokenizer"):
        load_tokenizer(str(path))


def test_missing_tokenizer_or_text_column_raises(convert, files, tmp_path, subtests):
    pytest.importorskip("tiktoken")
    pytest.importorskip("sentencepiece")
    for bad in ("bad.json", "bad.model"):
        (tmp_path / bad).write_text("{}")
    cases = [
        *({"tokenizer": f"{tmp_path / name}"} for name in ("absent.json", "bad.json", "bad.model")),
        {"tokenizer": "no-such-encoding"},
        {"keep_text": False},
    ]
    for settings in cases:
        with subtests.test(settings=settings):
            with pytest.raises(ConfigError) as caught:
                convert({"t.jsonl": lines(TEXTS)}, **settings)
            assert caught.value.setting == next(iter(settings)), settings
    for row in ({"stars": 3}, {"text": "a", "tokens": "b"}):
        with subtests.test(row=row):
            with pytest.raises(ConfigError) as caught:
                convert({"t.jsonl": json.dumps(row) + "\n"}, tokenizer=str(files / NAME))
            assert caught.value.setting == "tokenizer"
