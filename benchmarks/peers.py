"""Convert and read the same photos and texts with tfx-shards and its peers, and write the tables.

    make bench-peers                                                   # all of it: hours
    .venv-peers/bin/python benchmarks/peers.py --sizes 1000 --repeat 1 --programs web_dataset

The programs are in `benchmarks/peer_programs/`, and each run is a process. In each of `--repeat`
rounds every program runs once, so that all share the machine's good and bad minutes; figures are
medians. A run does its task twice: `cold` is a fresh process whose files are not in the page cache,
`warm` the second time in the same process. The imports of a fresh process are measured apart. A
size is a number of photos, and `--texts-per-photo` times as many texts. `remote` reads from an S3
server on this machine, whose responses a proxy delays by 20 ms.

Rows that were measured replace those in `benchmarks/peers.json`; `--write` also renders that file
between the markers of README.md, docs/why.md and docs/performance.md.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import peer_tables

REPOSITORY = Path(__file__).parents[1]
RAW = "raw"
DELAY = 0.02  # seconds a request
DISTINCT = 1000  # photos; larger sizes have copies of them
TASKS = ("convert_photos", "photo_reader", "convert_texts", "text_reader", "remote_photo_reader")
_CHARACTERS = 100  # of a text


@dataclasses.dataclass(frozen=True)
class Program:
    """A program as its module describes it, read without importing it.

    Args:
        name: the module in `peer_programs`.
        tasks: the tasks that it can do.
        reads: the program whose files it reads, or `RAW`.
        constants: its `TITLE`, `SETUP` and `DISTRIBUTIONS`.
    """

    name: str
    tasks: frozenset[str]
    reads: str
    constants: dict[str, Any]


def load_programs() -> dict[str, Program]:
    """Return all programs by name, tfx-shards first."""
    import ast

    programs = {}
    for path in sorted((REPOSITORY / "benchmarks" / "peer_programs").glob("*.py")):
        if path.stem in ("__init__", "common"):
            continue
        tasks, constants = set(), {"READS": path.stem}
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                tasks.add(node.name)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name in ("TITLE", "SETUP", "DISTRIBUTIONS"):
                    constants[name] = ast.literal_eval(node.value)
                elif name == "READS":
                    is_raw = isinstance(node.value, ast.Name)
                    constants[name] = RAW if is_raw else ast.literal_eval(node.value)
                elif name in TASKS:
                    tasks.add(name)
        reads = constants.pop("READS")
        programs[path.stem] = Program(path.stem, frozenset(tasks & {*TASKS}), reads, constants)
    return dict(sorted(programs.items(), key=lambda item: not item[0].startswith("tfx_shards")))


def make_photos(folder: Path, count: int) -> Path:
    """Return a folder of `count` photos; above `DISTINCT`, copies under other names."""
    from photos import make_jpegs

    distinct = folder / f"photos-{min(count, DISTINCT)}"
    make_jpegs(distinct, count=min(count, DISTINCT))
    many = folder / f"photos-{count}"
    if not many.is_dir():
        unfinished = folder / f"photos-{count}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        paths = sorted(distinct.rglob("*.jpg"))
        for number, path in zip(range(count), itertools.cycle(paths), strict=False):
            place = unfinished / path.parent.name / f"{number:06d}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        unfinished.rename(many)
    return many


def make_texts(path: Path, count: int) -> Path:
    """Return a table of `count` texts, English words in a random order, and labels."""
    import csv
    import random

    from common import texts_of_this_machine

    if not path.is_file():
        state = random.Random(0)
        words = " ".join(texts_of_this_machine(count=2000, characters=_CHARACTERS)).split()
        with open(path, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["text", "label"])
            for number in range(count):
                writer.writerow([" ".join(state.choices(words, k=_CHARACTERS // 7)), number % 5])
    return path


def drop_from_page_cache(place: Path) -> None:
    """Write files to disk and drop them from the page cache."""
    for path in place.rglob("*") if place.is_dir() else [place]:
        if path.is_file():
            with open(path, "rb") as stream:
                os.fdatasync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Bench:
    """The places of the inputs and of each program's files for one size."""

    def __init__(self, workdir: Path, size: int, texts: int, programs: Sequence[Program]) -> None:
        self.photos = make_photos(workdir, size)
        self.texts = make_texts(workdir / f"texts-{texts}.csv", texts)
        self.folder = workdir / f"programs-{size}"
        self.programs = programs
        self.folder.mkdir(exist_ok=True)
        self._failures: dict[tuple[str, str], str] = {}

    def measure(self, task: str, repeat: int) -> dict[str, Any]:
        """Run a task with all programs `repeat` times in turn; return medians by program."""
        runs: dict[str, list[Any]] = {}
        with contextlib.ExitStack() as stack:
            able = [program for program in self.programs if task in program.tasks]
            if task.startswith("remote"):
                remote = stack.enter_context(self._served(able))
            for program in able * repeat:
                if task.startswith("convert"):
                    run = self._convert(program.name, task)
                elif task.startswith("remote"):
                    run = self._read_remote(program, task, remote[program.reads])
                else:
                    run = self._read(program, task)
                runs.setdefault(program.name, []).append(run)
                print(f"  {program.name}: {json.dumps(run)}", flush=True)
        return {name: medians(each) for name, each in runs.items()}

    def _source(self, task: str) -> Path:
        return self.photos if "photo" in task else self.texts

    def _target(self, program: str, task: str) -> Path:
        return self.folder / f"{program}-{'photos' if 'photo' in task else 'texts'}"

    def _convert(self, program: str, task: str) -> Any:
        target = self._target(program, task)
        for path in self.folder.glob(f"{target.name}*"):
            shutil.rmtree(path)
        drop_from_page_cache(self._source(task))
        run = run_task(program, task, self._source(task), target)
        for name in ("-cache", "-warm", "-warm-cache"):  # one copy of the files is enough
            shutil.rmtree(f"{target}{name}", ignore_errors=True)
        if "error" in run:
            shutil.rmtree(target, ignore_errors=True)
        return run

    def _converted(self, program: str, task: str) -> Path | str:
        """Return the files that a program reads, or why they could not be written."""
        if program == RAW:
            return self.photos
        place = self._target(program, task)
        if not place.exists():
            failure = self._failures.get((program, task))
            if failure is None:
                kind = "convert_photos" if "photo" in task else "convert_texts"
                failure = self._convert(program, kind).get("error", "")
                self._failures[program, task] = failure
            if failure:
                return failure
        return place

    def _read(self, program: Program, task: str) -> Any:
        place = self._converted(program.reads, task)
        if isinstance(place, str):
            return {"error": place}
        drop_from_page_cache(place)
        return run_task(program.name, task, place)

    def _read_remote(self, program: Program, task: str, uri: str) -> Any:
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            return run_task(program.name, task, uri, cache)

    @contextlib.contextmanager
    def _served(self, programs: Sequence[Program]) -> Iterator[dict[str, str]]:
        """Serve every program's files from a slow S3 server; yield their urls."""
        sys.path.insert(0, str(REPOSITORY))
        from tests.object_stores import faulty, s3_server
        from trainer_utils import storage

        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))
            store = stack.enter_context(s3_server(folder / "server"))
            proxy = stack.enter_context(faulty(store, delay=0.0))
            os.environ.update(proxy.environment)
            uris: dict[str, str] = {}
            for reads in {program.reads for program in programs}:
                place = self._converted(reads, "photo_reader")
                uris[reads] = f"{store.base}/{reads}"
                if isinstance(place, str):  # the program reports it when it finds no files
                    continue
                if reads == "tfx_shards":
                    place = (place / "latest").resolve()
                for file in storage.list_files(str(place)):
                    to = f"{uris[reads]}/{file.path}"
                    with storage.write_atomically(to, temporary_folder=uris[reads]) as stream:
                        stream.write(storage.read_bytes(f"{place}/{file.path}"))
            proxy.ask(f"set?delay={DELAY}")
            yield uris


def run_task(program: str, task: str, *places: Path | str) -> dict[str, Any]:
    """Run a task in a process; return the times of both runs, or the reason for none."""
    command = [sys.executable, "benchmarks/peer_task.py", program, task, *map(str, places)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if "Error" in line), "")
        return {"error": reason or f"exit status {done.returncode}"}
    cold, warm = json.loads(done.stdout)["runs"]
    return {"cold": cold, "warm": warm}


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure, or the first error."""
    for run in runs:
        if "error" in run:
            return run
    return {
        which: {
            name: round(statistics.median(run[which][name] for run in runs), 4)
            for name in runs[0][which]
        }
        for which in ("cold", "warm")
    }


def describe(programs: Sequence[Program]) -> dict[str, Any]:
    """Return the titles, setups and versions of programs."""
    described = {}
    for program in programs:
        versions = {}
        for name in program.constants.get("DISTRIBUTIONS", ()):
            with contextlib.suppress(metadata.PackageNotFoundError):
                versions[name] = metadata.version(name)
        described[program.name] = {
            "title": program.constants["TITLE"],
            "setup": program.constants["SETUP"],
            "versions": versions,
        }
    return described


def main() -> None:
    """Measure, and write the results."""
    programs = load_programs()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    as_list = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--workdir", type=Path, default=Path("build/bench-peers"))
    parser.add_argument("--sizes", type=as_list, default=["1000", "20000"])
    parser.add_argument("--texts-per-photo", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--programs", type=as_list, default=[*programs])
    parser.add_argument("--tasks", type=as_list, default=[*TASKS])
    parser.add_argument("--results", type=Path, default=peer_tables.RESULTS)
    parser.add_argument("--write", action="store_true", help="render the tables into the docs")
    given = parser.parse_args()
    if unknown := {*given.programs} - {*programs} | {*given.tasks} - {*TASKS}:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; programs: {', '.join(programs)}; "
            f"tasks: {', '.join(TASKS)}"
        )
    chosen = [programs[name] for name in given.programs]
    workdir = given.workdir.resolve()
    workdir.mkdir(parents=True, exist_ok=True)
    results = peer_tables.load(given.results)
    results["programs"] |= describe(chosen)
    results["machine"] = {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }
    for size in map(int, given.sizes):
        texts = size * given.texts_per_photo
        bench = Bench(workdir, size, texts, chosen)
        for task in given.tasks:
            records = texts if "text" in task else size
            print(f"{task} of {records:,}", flush=True)
            row = {
                "task": task,
                "records": records,
                "repeat": given.repeat,
                "programs": bench.measure(task, given.repeat),
            }
            peer_tables.replace_row(results, row)
            given.results.write_text(json.dumps(results, indent=1) + "\n")
    print(peer_tables.full_tables(results))
    if given.write:
        peer_tables.write(results)


if __name__ == "__main__":
    main()
