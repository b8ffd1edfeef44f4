"""Render `peers.json`, the results of `peers.py`, as tables of Markdown in the docs.

python benchmarks/peer_tables.py            # rewrites the tables
python benchmarks/peer_tables.py --check    # exits with status 1 if one is out of date
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "benchmarks" / "peers.json"
START, END = "<!-- peers:start -->", "<!-- peers:end -->"
OURS = "tfx_shards"

_TITLES = {
    "convert_photos": "Convert {records:,} photos",
    "photo_reader": "Read {records:,} photos as batches of 64 at 224 x 224",
    "convert_texts": "Convert {records:,} texts of 100 characters",
    "text_reader": "Read {records:,} texts as batches of 256",
    "remote_photo_reader": "Read {records:,} photos from an S3 server with 20 ms of latency",
}
# The columns of a task: title, run, figure. `rate` is records divided by `seconds`; `process` is
# the time from the start of a program's imports to the end of a conversion, or to the first batch.
_COLUMNS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "convert_photos": (
        ("fresh process, s", "cold", "process"),
        ("of these after imports", "cold", "seconds"),
        ("warm, s", "warm", "seconds"),
        ("CPU, s", "warm", "cpu"),
    ),
    "photo_reader": (
        ("first batch in a fresh process, s", "cold", "process"),
        ("of these after imports", "cold", "first"),
        ("warm, s", "warm", "first"),
        ("epoch cold, /s", "cold", "rate"),
        ("warm, /s", "warm", "rate"),
        ("CPU, s", "warm", "cpu"),
        ("first batch after resuming, s", "warm", "resume"),
    ),
}
_COLUMNS |= {
    "convert_texts": _COLUMNS["convert_photos"],
    "text_reader": _COLUMNS["photo_reader"],
    "remote_photo_reader": _COLUMNS["photo_reader"],
}


def load(path: Path) -> dict[str, Any]:
    """Return earlier results, or none."""
    if path.is_file():
        return json.loads(path.read_text())
    return {"machine": {}, "programs": {}, "rows": []}


def replace_row(results: dict[str, Any], row: dict[str, Any]) -> None:
    """Put a row in the place of an earlier one of the same task and size."""
    key = lambda one: ([*_TITLES].index(one["task"]), one["records"])  # noqa: E731
    results["rows"] = sorted(
        [*(one for one in results["rows"] if key(one) != key(row)), row], key=key
    )


def figure(run: Mapping[str, Any], name: str) -> float | None:
    """Return a figure of a run, or None if it is missing."""
    if name == "rate":
        return run["records"] / run["seconds"] if "records" in run else None
    if name == "process":
        return run["imports"] + run.get("first", run["seconds"]) if "imports" in run else None
    return run.get(name)


def _shown(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if name == "rate" else f"{value:.2f}"


def _speed(value: float | None, ours: float | None, name: str) -> str:
    """Return how many times as fast as tfx-shards a figure is, in parentheses."""
    if value is None or not ours:
        return ""
    speed = value / ours if name == "rate" else ours / value
    return f" ({speed:.2f})"


def _order(name: str, values: Mapping[str, float]) -> Callable[[str], float]:
    return lambda program: -values[program] if name == "rate" else values[program]


def _table(results: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    columns = _COLUMNS[row["task"]]
    titles = " | ".join(title for title, _, _ in columns)
    ours = row["programs"].get(OURS, {})
    ours = {} if "error" in ours else ours
    lines = [
        f"**{_TITLES[row['task']].format(**row)}**, medians of {row['repeat']}:\n",
        f"| | {titles} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for program, runs in row["programs"].items():
        title = results["programs"][program]["title"]
        if "error" in runs:
            reason = runs["error"].replace("|", "\\|").replace("`", "'")[:120]
            lines.append(f"| {title} | did not run: `{reason}` |{' |' * (len(columns) - 1)}")
            continue
        cells = []
        for _, run, name in columns:
            value = figure(runs[run], name)
            reference = figure(ours[run], name) if ours and program != OURS else None
            cells.append(_shown(value, name) + _speed(value, reference, name))
        read = runs["warm"].get("records", row["records"])
        extra = "" if read == row["records"] else f" (read {read:,.0f} records)"
        lines.append(f"| {title}{extra} | {' | '.join(cells)} |")
    return "\n".join(lines)


def full_tables(results: Mapping[str, Any]) -> str:
    """Return a table for each row, and how each program is set up."""
    parts = [_table(results, row) for row in results["rows"]]
    setups = []
    for program in results["programs"].values():
        versions = ", ".join(f"{name} {version}" for name, version in program["versions"].items())
        setups.append(
            f"- **{program['title']}**{f' ({versions})' * bool(versions)}: {program['setup']}"
        )
    return "\n\n".join([*parts, "Set up as their documentation advises:\n", "\n".join(setups)])


_SUMMARIES = (
    ("convert_photos", "convert {records:,} photos", "seconds"),
    ("photo_reader", "{records:,} photos: first batch", "first"),
    ("photo_reader", "{records:,} photos: an epoch", "rate"),
    ("photo_reader", "{records:,} photos: first batch after resuming", "resume"),
    ("convert_texts", "convert {records:,} texts", "seconds"),
    ("text_reader", "{records:,} texts: an epoch", "rate"),
    ("remote_photo_reader", "{records:,} photos from S3, 20 ms of latency: second epoch", "rate"),
)


def summary(results: Mapping[str, Any], *, largest_only: bool) -> str:
    """Return one line per task and size: ours, then the others from the fastest, warm."""
    lines = ["| work, warm | tfx-shards | others |", "|---|---:|---|"]
    for task, work, name in _SUMMARIES:
        rows = [row for row in results["rows"] if row["task"] == task]
        for row in rows[-1:] if largest_only else rows:
            values = {
                program: value
                for program, runs in row["programs"].items()
                if "error" not in runs and (value := figure(runs["warm"], name)) is not None
            }
            if OURS not in values:
                continue
            unit = "/s" if name == "rate" else " s"
            others = " · ".join(
                f"{results['programs'][program]['title']} {_shown(values[program], name)}{unit}"
                f"{_speed(values[program], values[OURS], name)}"
                for program in sorted(values, key=_order(name, values))
                if program != OURS
            )
            ours = f"{_shown(values[OURS], name)}{unit}"
            lines.append(f"| {work.format(**row)} | {ours} | {others} |")
    return "\n".join(lines)


def render(results: Mapping[str, Any]) -> dict[Path, str]:
    """Return the text between the markers of each document; nothing without results."""
    if not results["rows"]:
        return {}
    machine = results["machine"]
    note = (
        f"Photos of 107 KB on average, {machine['cores']} cores, medians of programs that run in "
        "turn; in parentheses, how many times as fast as tfx-shards"
    )
    return {
        REPOSITORY / "README.md": f"{note}:\n\n{summary(results, largest_only=True)}",
        REPOSITORY / "docs" / "why.md": f"{note}:\n\n{summary(results, largest_only=False)}",
        REPOSITORY / "docs" / "performance.md": f"{note}.\n\n{full_tables(results)}",
    }


def with_tables(text: str, table: str) -> str:
    """Return a document with a table between its markers."""
    before, marker, rest = text.partition(START)
    _, other, after = rest.partition(END)
    if not marker or not other:
        raise ValueError(f"the document has no {START} … {END}")
    return f"{before}{START}\n{table}\n{END}{after}"


def write(results: Mapping[str, Any]) -> None:
    """Render all documents, if there are results."""
    for path, table in render(results).items():
        path.write_text(with_tables(path.read_text(), table))


def outdated(results: Mapping[str, Any]) -> list[Path]:
    """Return the documents whose tables differ from the results."""
    documents = {path: path.read_text() for path in render(results)}
    return [
        path
        for path, table in render(results).items()
        if with_tables(documents[path], table) != documents[path]
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(bool(outdated(load(RESULTS))))
    write(load(RESULTS))
