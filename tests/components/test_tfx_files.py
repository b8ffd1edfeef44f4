"""TFX's file operations on an object store, as in its pipelines."""

import pytest
import tensorflow as tf
from tfx.dsl.io import fileio, filesystem

from components.tfx.files import register_object_stores

ROOT = "memory://tfx-files/root"
NAMES = ["4.txt", "a/1.txt", "a/2.txt", "c/d/3.txt"]


def test_schemes_that_tfx_serves_are_not_replaced():
    before = fileio.filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.get_filesystem_for_scheme
    theirs = before("gs://")
    for _ in range(2):
        register_object_stores()
        assert before("gs://") is theirs
        assert before("") is not before("s3://")
    assert "gs" in tf.io.gfile.get_registered_schemes()


@pytest.mark.parametrize(
    "pattern", ["*", "*.txt", "*/*.txt", "a/*", "*/*/*", "*/?/3.txt", "[a-c]/[12].txt", "*/d/*"]
)
def test_pattern_matches_the_same_files_as_pythons_glob(tmp_path, pattern):
    register_object_stores()
    root = "memory://tfx-globs/root"
    for name in NAMES:
        with fileio.open(f"{root}/{name}", "w") as stream:
            stream.write(name)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    expected = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.glob(pattern))
    found = [path.removeprefix(f"{root}/") for path in fileio.glob(f"{root}/{pattern}")]
    # An object store has no folders, so only names in the last part are listed.
    assert [name for name in found if name in NAMES] == [n for n in expected if n in NAMES]
    assert {*found} <= {*expected}


def test_created_folder_is_a_folder_until_it_is_removed():
    register_object_stores()
    folder = "memory://tfx-folders/root/1"
    fileio.makedirs(folder)
    assert fileio.isdir(folder)
    fileio.rmtree(folder)
    assert not fileio.isdir(folder)


def test_written_files_are_found_moved_and_removed():
    register_object_stores()
    for name in NAMES:
        with fileio.open(f"{ROOT}/{name}", "w") as stream:
            stream.write(name)
    walked = [(top, files) for top, _, files in fileio.walk(ROOT)]
    assert [f"{top}/{name}" for top, files in walked for name in files] == [
        f"{ROOT}/{name}" for name in NAMES
    ]
    from_below = [top for top, _, _ in fileio.walk(ROOT, topdown=False)]
    assert from_below == [f"{ROOT}/{name}" for name in ("a", "c/d", "c")] + [ROOT]
    assert fileio.glob(f"{ROOT}/*/*.txt") == [f"{ROOT}/{name}" for name in NAMES[1:3]]
    assert fileio.glob(f"{ROOT}/a/*") == [f"{ROOT}/a/1.txt", f"{ROOT}/a/2.txt"]
    with pytest.raises(OSError, match="expected nothing there"):
        fileio.copy(f"{ROOT}/4.txt", f"{ROOT}/a/1.txt")
    fileio.copy(f"{ROOT}/4.txt", f"{ROOT}/a/1.txt", overwrite=True)
    fileio.rename(f"{ROOT}/a", f"{ROOT}/z")
    assert sorted(fileio.listdir(ROOT)) == ["4.txt", "c", "z"]
    assert fileio.open(f"{ROOT}/z/1.txt", "rb").read() == b"4.txt"
    fileio.rmtree(ROOT)
    with pytest.raises(filesystem.NotFoundError):
        fileio.open(f"{ROOT}/4.txt").read()
