"""What lies below a folder, and bytes that are found wherever a block of reading ends."""

import gzip

import pytest

from pipelines.tools.forget import files
from pipelines.tools.forget.files import FileSearch, survey_folder
from pipelines.tools.forget.wanted import Content, Names

NAME = "cat/0012.jpg"


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("before", range(40))
def test_no_end_of_a_block_hides_a_name_or_a_content(tmp_path, monkeypatch, compress, before):
    monkeypatch.setattr(files, "_BLOCK_BYTES", 16)
    path = tmp_path / "file"
    content = bytes(range(100, 160))
    search = FileSearch(Names([NAME]), [Content("key", len(content), content)])
    path.write_bytes(compress(b"-" * before + NAME.encode()))
    assert search.finds(str(path)) == {"name"}
    path.write_bytes(compress(b"-" * before + content + b"-" * 30))
    assert search.finds(str(path)) == {"content"}
    path.write_bytes(compress(b"-" * before + NAME.encode() + b"0" * 30))
    assert search.finds(str(path)) == set()


def test_a_name_behind_its_length_is_found_though_that_is_a_letter(tmp_path):
    name = f"{'x' * 50}/1234567890.jpg"  # 65 bytes, which is the letter A
    (tmp_path / "proto").write_bytes(b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12")
    (tmp_path / "other").write_bytes(b"B" + name.encode())
    assert len(name) == ord("A")
    search = FileSearch(Names([name]), [])
    assert search.finds(str(tmp_path / "proto")) == {"name"}
    assert search.finds(str(tmp_path / "other")) == set()


def test_each_file_is_of_one_thing(tmp_path):
    def make(path: str, text: str = "") -> str:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        return str(tmp_path / path)

    own = make("web/manifest.json", "{}")  # somebody else's
    notes, cut = make("run/notes.txt"), make("run/Split-train/data_tfrecord-00000-of-00001")
    temporary = make("run/.tfx-shards-tmp/summaries/one.json")
    written = make(f".photos.{'0' * 32}/Split-train/data_tfrecord-00000-of-00001")
    make("cache/shards/lock")
    make("cache/shards/bytes")
    make(f"cache/shards/{'a' * 16}-0-9.part")
    picture = make("shards/picture.png")
    make(".tfx-shards-forget/forgotten-0.json")
    below = survey_folder(str(tmp_path))
    assert below.datasets == {}
    assert set(below.others) == {own, notes, picture}
    assert {uri: set(paths) for uri, paths in below.unfinished.items()} == {
        str(tmp_path / "run"): {cut, temporary},
        str(tmp_path / f".photos.{'0' * 32}"): {written},
    }
    assert below.caches == {str(tmp_path / "cache/shards"): [f"{'a' * 16}-0-9.part"]}
