"""Names and contents against what a regular expression and hashlib say of the same bytes."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tools.forget.files import FileSearch
from pipelines.tools.forget.wanted import FORGOTTEN, Content, Names, content_of, name_digest
from trainer_utils.format import encode_example
from trainer_utils.format.example_decoding import decode_example

PHOTO = bytes(range(256)) * 3


def example(**features: object) -> bytes:
    return b"".join(encode_example(features))


def test_copies_of_another_name_and_label_hold_the_same_and_no_others_do():
    first = content_of(example(filename=b"cat/1.jpg", image=PHOTO, label=0))
    copy = content_of(example(filename=b"dog/2.jpg", image=PHOTO, label=1, record_id=b"x"))
    assert first == copy == Content(hashlib.sha256(PHOTO).hexdigest(), len(PHOTO), PHOTO)
    other = content_of(example(filename=b"cat/1.jpg", image=PHOTO[:-1], label=0))
    assert other.key != first.key
    row = content_of(example(id=b"a:1", age=33, height=1.5))
    assert row.key == content_of(example(id=b"b:2", age=33, height=1.5)).key
    assert row.key != content_of(example(id=b"a:1", age=34, height=1.5)).key
    assert row.needle == b""
    assert content_of(b"\xffno example").key == hashlib.sha256(b"\xffno example").hexdigest()


def test_a_long_value_is_looked_for_by_its_middle():
    data = bytes(n * n % 251 for n in range(200_000))
    found = content_of(example(image=data))
    assert found.size == len(data)
    assert len(found.needle) == 64 << 10
    assert found.needle in data
    assert content_of(example(image=bytes(5000))).needle == b""  # all alike: it is anywhere


@pytest.mark.parametrize("feature", ["record_id", "filename", "id"])
def test_a_record_is_known_by_any_of_its_names(feature):
    names = Names(["cat/1.jpg", "17", "naïve.txt"])
    for name in names.names:
        assert names.of(decode_example(example(**{feature: name.encode()}))) == [name]
    assert names.of(decode_example(example(**{feature: 17}))) == ["17"]
    assert names.of(decode_example(example(**{feature: b"cat/11.jpg"}))) == []
    assert names.of(decode_example(example(label=17, text=b"cat/1.jpg"))) == []


def test_texts_lose_the_name_and_nothing_else():
    names = Names(["reviews.csv:1", "cat"])
    given = {"a": ["reviews.csv:1", "reviews.csv:17", "xreviews.csv:1"], "/p/reviews.csv:1": 1}
    assert names.redact(given) == {
        "a": [FORGOTTEN, "reviews.csv:17", "xreviews.csv:1"],
        f"/p/{FORGOTTEN}": 1,
    }
    assert names.redact("cat") == "cat"  # too short to be told from a class
    assert names.without_lines(["dog", "reviews.csv:1"]) == ["dog", f"{FORGOTTEN} 1"]


def test_the_digest_of_names_knows_no_order_and_no_name():
    assert Names(["b", "a"]).digest == Names(["a", "b", "a"]).digest != Names(["a"]).digest
    assert name_digest("ü") == f"sha256:{hashlib.sha256('ü'.encode()).hexdigest()}"


@given(
    st.lists(st.sampled_from([b"cat/12.jpg", b"b", b"/", b"\x0a", b"7", b'"', b"\n"]), max_size=9)
)
def test_a_file_is_searched_as_a_pattern_would(tmp_path_factory, parts):
    path = tmp_path_factory.getbasetemp() / "searched"
    path.write_bytes(b"".join(parts))
    wanted = re.search(rb"(?<![0-9A-Za-z_])cat/12\.jpg(?![0-9A-Za-z_])", b"".join(parts))
    found = FileSearch(Names(["cat/12.jpg"]), []).finds(str(path))
    assert found == ({"name"} if wanted else set())
