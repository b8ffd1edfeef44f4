"""Files in TensorFlow's memory, by `tf.io.gfile` itself."""

import pytest
import tensorflow as tf

from trainer_utils.reading.memory_files import TensorFlowFiles

BASE = "ram://test_memory_files"
FILES = TensorFlowFiles()


@pytest.fixture(autouse=True)
def folder():
    FILES.make_folder(f"{BASE}/below")
    with FILES.create(f"{BASE}/below/a") as stream:
        stream.write(b"0123456789")
    yield
    tf.io.gfile.rmtree(BASE)


def test_what_is_written_is_what_tensorflow_reads_and_the_reverse():
    with tf.io.gfile.GFile(f"{BASE}/below/a", "rb") as stream:
        assert stream.read() == b"0123456789"
    with tf.io.gfile.GFile(f"{BASE}/b", "wb") as stream:
        stream.write(b"other")
    assert FILES.read(f"{BASE}/b") == FILES.read_of_size(f"{BASE}/b", 5) == b"other"


@pytest.mark.parametrize(("start", "stop"), [(0, None), (0, 0), (3, 7), (3, None), (9, 99), (7, 3)])
def test_a_part_is_a_slice(start, stop):
    assert FILES.read(f"{BASE}/below/a", start=start, stop=stop) == b"0123456789"[start:stop]


def test_folders_are_listed_and_walked():
    (entry,) = FILES.list_folder(BASE)
    assert (entry.name, entry.is_folder) == ("below", True)
    (found,) = FILES.walk(BASE)
    assert (found.path, found.size) == ("below/a", 10)
    assert FILES.is_folder(f"{BASE}/below")
    assert not FILES.is_folder(f"{BASE}/below/a")


def test_a_file_gets_its_final_name():
    FILES.rename(f"{BASE}/below/a", f"{BASE}/c")
    assert FILES.exists(f"{BASE}/c")
    assert not FILES.exists(f"{BASE}/below/a")
    with pytest.raises(FileNotFoundError):
        FILES.open(f"{BASE}/below/a")
