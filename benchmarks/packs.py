"""Compare stored tokens and indexed packs with a tokenizer alone and with materialised packs.

    python benchmarks/packs.py --workdir bench          # 64 MB of texts, an index of 10^9 tokens

1. Tokenising: `steps.convert` with a tokenizer of `tokenizers` reads, plans, writes, checks and
describes a dataset. It is compared with the library's batch call on texts in memory, on all cores.
It is also compared with a conversion without a tokenizer: the difference is the cost of tokens.
2. Index: seconds, padding and bytes for log-normally drawn lengths. The peer writes tokens row by
row in uint16, like datatrove and Megatron-LM's preprocessing.
3. Reading: shuffled batches of packs. The peer copies rows of such a file from the page cache. It
checks nothing and does not know documents.
4. Long documents in a global shuffle, as if no memory were left to keep them: each is read and
checked again for each of its packs.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import tokenizers
from common import texts_of_this_machine

import trainer_utils
from components import steps
from components.example_gen.settings import TextSettings
from trainer_utils.order.packing import STRATEGIES, PackIndex, PackOptions
from trainer_utils.reading import packing

LENGTH, BATCH = 4096, 32
SHORT = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--tokens", type=float, default=1e9, help="of the index")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.workdir.mkdir(parents=True, exist_ok=True)
    measure_index(options.tokens)
    texts = make_texts(options.megabytes)
    uri = measure_tokenizing(texts, options.workdir, options.runs)
    measure_reading(uri, options.workdir, options.runs)
    measure_long_documents(options.workdir)


def measure_index(tokens: float) -> None:
    """Measure the index of drawn lengths, with about the quartiles of web texts."""
    lengths = np.random.default_rng(0).lognormal(5.6, 1.1, int(tokens / 495)).clip(1, 100_000)
    lengths = lengths.astype(np.uint32)
    total = int(lengths.sum())
    print(f"{len(lengths):,} documents, {total:,} tokens, rows of {LENGTH}")
    for strategy in STRATEGIES:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        index = PackIndex(lengths, PackOptions(length=LENGTH, strategy=strategy))
        seconds = time.perf_counter() - begun
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        pieces = index.pieces(np.arange(index.num_packs)).rows.size
        rows = index.num_packs * LENGTH * 2
        print(
            f"  {strategy:14} {seconds:6.2f} s, {grown / 1024:4.0f} MB more memory; padding "
            f"{index.padding:8.4%}; {(12 * pieces + 8 * index.num_packs) / 1e6:,.0f} MB of index, "
            f"materialised {rows / 1e6:,.0f} MB"
        )


def make_texts(megabytes: int) -> list[str]:
    """Return documents of very different lengths, made of lines of this machine's texts."""
    lines = texts_of_this_machine(count=200_000, characters=80)
    random = np.random.default_rng(0)
    texts, size = [], 0
    while size < megabytes << 20:
        begin, count = random.integers(len(lines)), int(random.lognormal(2.2, 1.1)) + 1
        texts.append("\n".join(lines[begin : begin + count]))
        size += len(texts[-1])
    return texts


def measure_tokenizing(texts: list[str], workdir: Path, runs: int) -> Path:
    """Measure tokenising, and return the dataset of tokens."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=16_000, show_progress=False)
    tokenizer.train_from_iterator(texts[:2000], trainer)
    path = workdir / "tokenizer.json"
    tokenizer.save(str(path))
    table = workdir / "texts.jsonl"
    table.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    out = workdir / "tokens"
    counts = []

    def alone() -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        some = (texts[start : start + 1024] for start in range(0, len(texts), 1024))
        found = [one.ids for part in some for one in tokenizer.encode_batch_fast(part)]
        counts.append(sum(map(len, found)))
        os.environ["TOKENIZERS_PARALLELISM"] = "false"

    def convert(**settings: object) -> None:
        shutil.rmtree(out, ignore_errors=True)
        steps.convert(str(table), str(out), TextSettings(**settings))

    seconds = in_turn(
        {
            "the library alone": alone,
            "texts converted": lambda: convert(),
            "tokens converted": lambda: convert(tokenizer=str(path), keep_text=False),
        },
        runs,
    )
    size = sum(map(len, texts)) / 1e6
    print(f"\n{len(texts):,} texts, {size:.0f} MB, {counts[-1]:,} tokens, {os.cpu_count()} cores")
    for name, each in seconds.items():
        rate = counts[-1] / each / 1e6
        print(f"  {name:18} {each:6.2f} s, {rate:.2f} million tokens/s")
    library, plain, whole = seconds.values()
    added = library / (whole - plain)
    print(f"  of the library: the whole {library / whole:.2f}, what tokens add {added:.2f}")
    return out


def measure_reading(uri: Path, workdir: Path, runs: int) -> None:
    """Measure reading the shuffled batches of an epoch."""
    pack = PackOptions(length=LENGTH, eos=0)
    rows = trainer_utils.iterate(str(uri), "train", batch_size=None, shuffle=False, pack=pack)
    materialised = workdir / "rows.u2"
    with materialised.open("wb") as stream:
        for row in rows:
            stream.write(row["tokens"].astype("<u2").tobytes())
    num_rows = len(rows)

    def copied() -> None:
        file = np.memmap(materialised, "<u2", "r").reshape(-1, LENGTH)
        order = np.random.default_rng(0).permutation(num_rows)
        for start in range(0, num_rows, BATCH):
            file[order[start : start + BATCH]].astype(np.int32)

    def packed(strategy: str, **settings: object) -> Callable[[], None]:
        def read() -> None:
            own = PackOptions(length=LENGTH, strategy=strategy, eos=0)
            for _ in trainer_utils.iterate(
                str(uri), "train", batch_size=BATCH, pack=own, **settings
            ):
                pass

        return read

    work = {"materialised rows, copied": copied}
    work |= {f"{one}, shuffle=True": packed(one) for one in STRATEGIES[:2]}
    work["concat, shuffle='global'"] = packed("concat", shuffle="global")
    print(f"\n{num_rows:,} rows of {LENGTH} tokens")
    for name, seconds in in_turn(work, runs).items():
        print(f"  {name:26} {num_rows * LENGTH / seconds / 1e6:8.1f} million tokens/s")


def measure_long_documents(workdir: Path) -> None:
    """Measure packs of documents that do not stay in memory."""
    print(f"\nrows of {SHORT} tokens of documents that are read for each row")
    pack = PackOptions(length=SHORT, eos=0)
    for tokens in 20_000, 100_000, 1_000_000:
        uri = workdir / f"documents of {tokens}"
        shutil.rmtree(uri, ignore_errors=True)
        random = np.random.default_rng(0)
        with trainer_utils.DatasetWriter(str(uri)) as writer:
            for _ in range(4_000_000 // tokens):
                writer.write("train", {"tokens": random.integers(0, 50_000, tokens)})
        with mock.patch.object(packing, "_KEPT_BYTES", 0):
            rows = trainer_utils.iterate(
                str(uri), "train", batch_size=16, shuffle="global", pack=pack
            )
            begun = time.process_time()
            for step in range(20):
                rows.batch(0, step)
            rate = 20 * 16 * SHORT / (time.process_time() - begun)
        print(f"  {tokens:9,} tokens each: {rate / 1e6:5.1f} million tokens per second of CPU")


def in_turn(work: dict[str, Callable[[], None]], runs: int) -> dict[str, float]:
    """Return the median seconds of each function, run in turn after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for run in range(runs + 1):
        for name, function in work.items():
            begun = time.perf_counter()
            function()
            if run:
                seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(each) for name, each in seconds.items()}


if __name__ == "__main__":
    main()
