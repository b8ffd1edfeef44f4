"""Rows are assigned to splits by tasks; the launcher keeps some numbers for each piece."""

import bisect
import pickle
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from components import steps
from components.example_gen import row_splits, stratified_splits, text_conversion
from components.example_gen.input_selection import InputSelection
from components.example_gen.row_split_files import ASSIGNED, FINAL, STRATIFIED, read_splits
from components.example_gen.settings import TextSettings
from components.example_gen.split_rules import EXCLUDED, Partition
from components.runtime.runners import Runner
from components.tables import row_ends
from components.tables.row_ends import CutLimits
from trainer_utils.core.errors import DatasetError, InputError
from trainer_utils.format import keyed_hash, keyed_hashes
from trainer_utils.writing.working_folder import working_folder


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"text {row % 700},{'abc'[row % 3]}" for row in range(1000)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def convert(table: Path, uri: Path, **settings) -> dict[str, bytes]:
    with Runner(processes=1) as runner:
        steps.convert(str(table), str(uri), TextSettings(**settings), runner=runner)
    return {
        str(path.relative_to(uri)): path.read_bytes()
        for path in sorted(uri.rglob("*"))
        if path.is_file()
    }


def test_number_of_passes_does_not_change_which_duplicates_stay(monkeypatch, tmp_path, table):
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_rows=150))
    expected = convert(table, tmp_path / "one", deduplicate=True)
    monkeypatch.setattr(row_splits, "_ROWS_AT_ONCE", 60)
    assert convert(table, tmp_path / "many", deduplicate=True) == expected


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"deduplicate": True}, FINAL),
        ({"stratify": True}, STRATIFIED),
        ({"deduplicate": True, "stratify": True}, STRATIFIED),
    ],
)
def test_run_that_ended_after_the_plan_resumes_with_equal_bytes(
    monkeypatch, tmp_path, table, settings, kind
):
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_rows=150))
    expected = convert(table, tmp_path / "whole", **settings)
    failure = mock.patch.object(text_conversion, "encode_pieces", mock.Mock(side_effect=KeyError))
    with failure, pytest.raises(KeyError):
        convert(table, tmp_path / "resumed", **settings)
    folder = working_folder(str(tmp_path / "resumed"))
    kept = read_splits(folder, ASSIGNED, 0), read_splits(folder, kind, 0)
    assert (kept[0] != EXCLUDED).all()
    assert len(kept[0]) == len(kept[1])
    assert convert(table, tmp_path / "resumed", **settings) == expected


def stratified(table: Path, uri: Path) -> list[list[int]]:
    """Plan stratified splits 3:1:1, and return the split of each row by piece."""
    partition = Partition((("a", 3), ("b", 1), ("c", 1)))
    selection = InputSelection(base=str(table), partition=partition)
    settings = TextSettings(stratify=True, columns={"label": "label"})
    stop = mock.patch.object(text_conversion, "encode_pieces", mock.Mock(side_effect=KeyError))
    with Runner(processes=1) as runner, stop, pytest.raises(KeyError):
        steps.convert(selection, str(uri), settings, runner=runner)
    folder = working_folder(str(uri))
    names = sorted(path.name for path in Path(folder, STRATIFIED).iterdir())
    return [read_splits(folder, STRATIFIED, int(name)).tolist() for name in names]


def expected_splits(labels: list[str]) -> list[int]:
    """Sort the rows of each class by hash, and cut them by the shares 3:1:1."""
    numbers = np.arange(len(labels))
    hashes = keyed_hashes(numbers, identity=b"table.csv", seed=0, purpose="split").tolist()
    splits = [0] * len(labels)
    for label in set(labels):
        rows = sorted((row for row in numbers if labels[row] == label), key=hashes.__getitem__)
        start = keyed_hash(label.encode(), seed=0, purpose="stratify") % 5
        for rank, row in enumerate(rows):
            splits[row] = bisect.bisect_right([3, 4], (rank * 5 + start) // len(rows))
    return splits


@pytest.mark.parametrize(
    "limits",
    [{}, {"_MARGIN": 1e-4}, {"_MAX_HELD_ROWS": 1, "_MAX_HELD_SHARE": 0}],
    ids=["default", "windows-miss", "many-groups"],
)
def test_stratified_splits_are_the_ranks_of_sorted_hashes(monkeypatch, tmp_path, limits):
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_rows=700))
    for name, value in limits.items():
        monkeypatch.setattr(stratified_splits, name, value)
    labels = ["common" if row % 3 else f"class {row % 50}" for row in range(3000)]
    labels[7:10] = ["one", "two", "two"]
    table = tmp_path / "table.csv"
    rows = [f"text {row},{label}" for row, label in enumerate(labels)]
    table.write_text("\n".join(["text,label", *rows]) + "\n")
    splits = stratified(table, tmp_path / "out")
    assert len(splits) > 3
    assert [split for piece in splits for split in piece] == expected_splits(labels)


def test_rows_with_equal_hashes_are_ordered_by_position(monkeypatch, tmp_path, table):
    monkeypatch.setattr(row_ends, "LIMITS", CutLimits(piece_rows=150))
    constant = mock.Mock(side_effect=lambda seed, piece, records: np.full(len(records), 9, "u8"))
    monkeypatch.setattr(stratified_splits, "hash_rows", constant)
    splits = [split for piece in stratified(table, tmp_path / "out") for split in piece]
    for label in range(3):
        of_class = splits[label::3]
        assert of_class == sorted(of_class)
        assert of_class.count(1) in (66, 67)


def test_stratifying_rows_that_are_all_rejected_reports_them(tmp_path, table):
    settings = {"stratify": True, "vocabulary": {"label": ["x"]}, "max_reject_fraction": 1.0}
    with pytest.raises(InputError, match="is not in the vocabulary"):
        convert(table, tmp_path / "out", **settings)


def test_stratifying_collects_few_rows_in_the_launcher(monkeypatch, tmp_path, table):
    held = []
    collect = stratified_splits.collect_windows

    def counted(*arguments):
        collected = collect(*arguments)
        held.append(len(collected[1]))
        return collected

    monkeypatch.setattr(stratified_splits, "collect_windows", counted)
    table.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(40_000)))
    stratified(table, tmp_path / "out")
    assert 0 < sum(held) < 40_000 / 8


def test_damaged_file_of_splits_is_an_error(tmp_path):
    path = tmp_path / ASSIGNED / "000000"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0\0\1")
    with pytest.raises(DatasetError, match="whole numbers of 2 bytes"):
        read_splits(str(tmp_path), ASSIGNED, 0)


def test_tasks_have_no_number_for_each_row(monkeypatch, tmp_path, table, subtests):
    """Pickled arguments of tasks must not grow with the rows of a piece."""
    sizes: dict[str, list[int]] = {}
    run = Runner.run

    def counted(runner, call, tasks, processes, **named):
        for task in tasks:
            step = task.name.partition("-")[0]
            sizes.setdefault(step, []).append(len(pickle.dumps(task.argument)))
        return run(runner, call, tasks, processes, **named)

    monkeypatch.setattr(Runner, "run", counted)
    convert(table, tmp_path / "one")
    small, sizes = sizes, {}
    table.write_text(table.read_text() + "".join(f"more {row},a\n" for row in range(20_000)))
    convert(table, tmp_path / "two")
    for step in ("cut", "inspect", "assign", "encode"):
        with subtests.test(step=step):
            assert sizes[step][0] <= small[step][0] + 20, step
