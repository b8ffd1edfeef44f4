"""Paths taken apart at once have the parts that `posixpath` returns."""

import posixpath

import pyarrow as pa
import pytest

from components.inputs.arrow_columns import BINARY, bytes_of
from components.inputs.path_columns import extensions_of, folders_of, names_of, stems_of

PATHS = [
    *("a/b/1.jpg", "1.jpg", "a.b/c", "a/b.tar.gz", "é/ü.PNG", "a/b c.d e.jpeg", "x", "a/."),
    *("a\nb/c.d", "a/" + "n" * 300 + ".txt"),
]


@pytest.mark.parametrize("start", [0, 3])
def test_parts_equal_posixpath(start):
    paths = pa.array([path.encode() for path in PATHS], BINARY).slice(start)
    expected = PATHS[start:]
    assert bytes_of(folders_of(paths)) == [posixpath.dirname(p).encode() for p in expected]
    names = [posixpath.basename(path) for path in expected]
    assert bytes_of(names_of(paths)) == [name.encode() for name in names]
    stems = [name.rpartition(".")[0] if "." in name else name for name in names]
    assert bytes_of(stems_of(paths)) == [stem.encode() for stem in stems]
    extensions = ["." + name.rpartition(".")[2] if "." in name else "" for name in names]
    assert bytes_of(extensions_of(paths)) == [extension.encode() for extension in extensions]


def test_long_endings_are_no_extensions():
    paths = pa.array([b"a." + b"x" * 15, b"a." + b"x" * 16], BINARY)
    assert bytes_of(extensions_of(paths)) == [b"." + b"x" * 15, b""]


@pytest.mark.parametrize("part_of", [folders_of, names_of, stems_of, extensions_of])
def test_no_paths_have_no_parts(part_of):
    assert bytes_of(part_of(pa.array([], BINARY))) == []
