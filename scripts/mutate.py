"""Test the tests: break our own code in many ways; a test must fail for each mutation.

    python scripts/mutate.py            # all, in a copy of this folder; exit 1 if one survives
    python scripts/mutate.py crc32c     # only files whose path contains this string

Each `Mutation` has a string that occurs once in a file, its replacement, and the tests that must
detect the change.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
SECONDS = 600  # time limit of the tests of one mutation; an endless loop counts as detected

FORMAT = "trainer_utils/format"
ORDER = "trainer_utils/order"
DATASET = "trainer_utils/dataset"
VERIFY = "pipelines/tools/verification"


class Mutation(NamedTuple):
    """A change of one file.

    Args:
        file: the path of the file.
        old: a string that occurs exactly once in the file.
        new: the replacement.
        tests: the paths of the tests that must fail, separated by spaces.
    """

    file: str
    old: str
    new: str
    tests: str


def _of(
    folder: str, module: str, *changes: tuple[str, str], tests: str = "", also: str = ""
) -> list[Mutation]:
    """Return mutations of one module, for its own tests, or `tests`, and the tests in `also`."""
    tests = f"{tests or f'tests/{folder}/test_{module}.py'} {also}".strip()
    return [Mutation(f"{folder}/{module}.py", old, new, tests) for old, new in changes]


MUTATIONS = [
    # Checksums and frames.
    *_of(
        FORMAT,
        "tfrecord",
        ("_header(sum(map(len, parts)))", "_header(len(parts[0]))"),
        ("elif frame[-FOOTER_BYTES:] != footer:", "elif False:"),
        ("is_whole &= mask_crc32c(crcs) == footers", "pass"),
        ('is_whole &= headers["crc"] == masked_crc32c_of_lengths(headers["length"])', "pass"),
        ("    if pending:\n        _check_header", "    if False:\n        _check_header"),
        ("            records += len(bounds) - 1\n", "            records += 0\n"),
        ("            offset += end\n", "            offset += 0\n"),
        ("            if good < len(is_whole):\n", "            if False:\n"),
        ("if not is_whole.all():  #", "if False:  #"),
        ("crc >> 15 | crc << 17)", "crc >> 15 | crc << 16)"),
        ("return first ^ second", "return first"),
        ("np.uint32(15) | crcs", "np.uint32(14) | crcs"),
        ("np.uint64(32) | payload_crcs", "np.uint64(32) & payload_crcs"),
        ("return sum(sums) % 2**64", "return max(sums, default=0)"),
        also=f"tests/{FORMAT}/test_index.py",
    ),
    *_of(
        FORMAT,
        "index",
        ("            self._emit(self._gzip.flush())", "            pass"),
        ("            self._bytes += len(block)", "            self._bytes += 1"),
        ("extend_crc32c(self._crc, summed)", "extend_crc32c(0, summed)"),
        ("        self._payload_crcs.append(crc)\n", "        self._payload_crcs.append(0)\n"),
        (
            "if (len(index), size, crc) != (shard.records, shard.bytes, shard.index_crc32c):",
            "if 0:",
        ),
        ("if header is None or int.from_bytes", "if header is None or 0 and int.from_bytes"),
        ("if stop != len(data) or", "if"),
        ("and len(a) == len(lengths)", ""),
        ("or len(others) == 1", ""),
    ),
    *_of(
        FORMAT,
        "sealing",
        ("return seal(text) == text", "return bool(seal(text))"),
        ("    if len(places) != 1:\n", "    if not places:\n"),
        tests=f"tests/{FORMAT}/test_manifest.py",
    ),
    # The manifest.
    *_of(
        FORMAT,
        "manifest",
        (
            "            if size == actual:\n",
            "            if size == actual or (size and actual):\n",
        ),
        ("sorted(expected.keys() | sizes.keys())", "sorted(expected)"),
        ("sorted(expected.keys() | sizes.keys())", "sorted(sizes)"),
        ("        if version not in _VERSIONS:\n", "        if False:\n"),
        ("if is_checked and not is_whole:", "if False:"),
        ("if digest is not None and digest != actual:", "if False:"),
    ),
    *_of(
        FORMAT,
        "accounting",
        ("if self.found != self.written + self.rejected + self.skipped:", "if False:"),
        tests=f"tests/{FORMAT}/test_manifest.py",
    ),
    *_of(
        FORMAT,
        "slices",
        ("    if abs(bound) > size:\n", "    if False:\n"),
        ("return bound + size if bound < 0 else bound", "return bound"),
        ("round(int(text) * size / 100)", "int(text) * size // 101"),
        ("        if start > stop:\n", "        if False:\n"),
    ),
    *_of(
        FORMAT,
        "hashing",
        ("numbers.astype(np.uint64) + np.uint64(1)", "numbers.astype(np.uint64) * np.uint64(0)"),
        ("key, person = seed.to_bytes", "key, person = (0).to_bytes"),
    ),
    # The distribution of records among workers.
    *_of(
        ORDER,
        "epoch_order",
        ("identity = epoch.to_bytes", "identity = (0).to_bytes"),
        ('+ number.to_bytes(8, "little")', '+ (0).to_bytes(8, "little")'),
        ("+ epoch * self._layout.num_dropped", "+ 0 * self._layout.num_dropped"),
        ('searchsorted(before, within, side="right")', "searchsorted(before, within)"),
        ("np.arange(begin + first, begin + stop) %", "np.arange(begin, begin + stop - first) %"),
        tests="tests/trainer_utils/order/test_order.py tests/order/test_vectors.py",
    ),
    *_of(
        ORDER,
        "batch_layout",
        ("return (rest - rest // 2, rest // 2)", "return (rest // 2, rest // 2)"),
        ("return worker * size // workers, (worker", "return worker * (size // workers), (worker"),
        tests="tests/trainer_utils/order/test_order.py tests/order/test_vectors.py",
    ),
    # Offsets of bytes, and checks of metadata.
    Mutation(
        "trainer_utils/storage/__init__.py",
        "        if exists(temporary):\n            files.remove",
        "        if False:\n            files.remove",
        "tests/trainer_utils/storage/test_files.py",
    ),
    Mutation(
        "trainer_utils/storage/host_errors.py",
        "            error.filename = path",
        "            pass",
        "tests/trainer_utils/storage/test_files.py",
    ),
    *_of(
        DATASET,
        "opening",
        ("    if size not in (None, index.framed_bytes):\n", "    if False:\n"),
        tests=f"tests/{DATASET}/test_shards.py",
    ),
    Mutation(
        f"{FORMAT}/layouts.py",
        "                manifest.check_text(name, text, path=path)\n",
        "                pass\n",
        f"tests/{FORMAT}/test_layouts.py",
    ),
    # Selected records, and concurrent runs.
    *_of(
        "components/balancing",
        "parts",
        ("            if not is_whole.all():\n", "            if False:\n"),
        ("        data += more\n", "        break\n"),
        tests="tests/components/balancing/test_picking.py",
    ),
    *_of(
        "components/runtime",
        "dataset_folder",
        ("return not isinstance(error, BlockingIOError)", "return True"),
        tests="tests/components/runtime/test_workspace.py",
    ),
    *_of(
        "components/runtime",
        "workspace",
        ("if recorded is None or recorded.run != run.name:", "if recorded is None:"),
        ("recorded is None or recorded.run == run.name)", "True)"),
    ),
    # The checks of verify.
    *[
        Mutation(f"{VERIFY}.py", old, new, f"tests/{VERIFY}")
        for old, new in (
            ("if entry is not None and summed.crc != entry.crc32c:", "if False:"),
            ("if entry is not None and summed.size != entry.bytes:", "if False:"),
            ("np.concatenate(lengths), index.lengths", "index.lengths, index.lengths"),
            ("manifest.check_text(path, files.read_bytes(path), path=where)", "pass"),
            ("        if records != accounting.written:\n", "        if False:\n"),
            ("elif not is_sealed(files.read_text(path)):", "elif False:"),
            ("if len(actual) == len(said) and (wrong", "if False and (wrong"),
        )
    ],
]


def run(mutation: Mutation, folder: Path) -> bool:
    """Return whether the tests detect a mutation."""
    path = folder / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        sys.exit(f"{mutation.file}: expected {mutation.old!r} once, got {text.count(mutation.old)}")
    path.write_text(text.replace(mutation.old, mutation.new))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-m", "not e2e and not slow", *mutation.tests.split()],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text)
    if done.returncode not in (0, 1):
        sys.exit(f"{mutation.tests}: pytest ended with {done.returncode}: {done.stdout.decode()}")
    return done.returncode == 1


def copy_to(folder: Path) -> None:
    """Copy the files tracked by git, with their uncommitted changes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((REPOSITORY / name).read_bytes())


def main(wanted: str = "") -> int:
    """Run the mutations of files whose path contains a string; return the number of survivors."""
    chosen = [mutation for mutation in MUTATIONS if wanted in mutation.file]
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        copy_to(Path(name))
        for number, mutation in enumerate(chosen, 1):
            is_seen = run(mutation, Path(name))
            survivors += [] if is_seen else [mutation]
            fate = "seen" if is_seen else "SURVIVED"
            print(f"{number}/{len(chosen)} {fate:8} {mutation.file}: {mutation.old!r}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations were seen.")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
