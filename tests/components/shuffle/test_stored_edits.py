"""Test that edits of many names are sent to the workers in a file."""

import pickle

import trainer_utils
from components.shuffle.edits import Edits
from pipelines.tools.conversion.convert import balance
from tests.components.plain_runs import convert, write_files

NAMES = [f"train.jsonl:{number}" for number in range(1, 200_001)]


def test_many_names_are_not_pickled_for_the_workers(tmp_path):
    relabel = {name: number % 5 for number, name in enumerate(NAMES)}
    edits = Edits(exclude=NAMES, relabel=relabel, feature="label", kind="int")
    stored = edits.stored(str(tmp_path / "edits.json"), temporary_folder=str(tmp_path))
    data = pickle.dumps(stored)
    assert len(data) < 1000
    found = pickle.loads(data)
    assert (found.exclude, found.relabel) == (NAMES, relabel)
    assert (found.feature, found.kind, bool(found)) == ("label", "int", True)


def test_few_names_need_no_file(tmp_path):
    edits = Edits(exclude=NAMES[:5])
    stored = edits.stored(str(tmp_path / "edits.json"), temporary_folder=str(tmp_path))
    assert stored is edits
    assert not (tmp_path / "edits.json").exists()
    assert pickle.loads(pickle.dumps(edits)) == edits


def test_many_names_are_excluded(tmp_path):
    rows = "".join(f'{{"text": "row {n}"}}\n' for n in range(3000))
    convert(write_files(tmp_path / "in", {"train.jsonl": rows}), tmp_path / "made")
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES[:2000]))
    result = balance(str(tmp_path / "made"), str(tmp_path / "out"), exclude=str(names))
    batches = trainer_utils.iterate(result, "train", batch_size=100)
    found = {name for batch in batches for name in batch["id"].tolist()}
    assert found == {f"train.jsonl:{n}".encode() for n in range(2001, 3001)}
