"""AudioExampleGen on lists of sounds: CSV, JSON lines and Parquet, with paths or bytes."""

import pytest

from tests.components.audio_example_gen.audio_runs import (
    by_name,
    check_law,
    convert,
    sound,
    write_tree,
)
from tests.make import table

EMBEDDED = {
    "bytes": ([sound(n) for n in range(5)], [f"list.parquet/{n:08d}" for n in range(5)]),
    "Hugging Face's": (
        [{"bytes": sound(n), "path": f"{n}.wav"} for n in range(5)],
        [f"{n}.wav" for n in range(5)],
    ),
    "Hugging Face's, with no paths": (
        [{"bytes": sound(n), "path": None} for n in range(5)],
        [f"list.parquet/{n:08d}" for n in range(5)],
    ),
}


@pytest.mark.parametrize(
    ("form", "column"),
    [("bytes", "audio"), ("Hugging Face's", "speech"), ("Hugging Face's, with no paths", "audio")],
)
def test_sounds_may_be_in_the_parquet_file_itself(tmp_path, form, column):
    values, names = EMBEDDED[form]
    rows = [{column: value, "label": "ab"[n % 2]} for n, value in enumerate(values)]
    write_tree(tmp_path / "in", {"list.parquet": table(rows, "parquet", row_group_size=2)})
    convert(tmp_path / "in", tmp_path / "out")
    check_law(tmp_path / "out")
    found = by_name(tmp_path / "out")
    assert {name: (found[name]["audio"], found[name]["label"]) for name in found} == {
        name: (sound(n), n % 2) for n, name in enumerate(names)
    }
