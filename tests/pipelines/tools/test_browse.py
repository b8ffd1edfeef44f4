"""The pages of `browse`, requested over HTTP."""

import io
import os
import re
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
from PIL import Image

from pipelines.tools import browse
from pipelines.tools.browse import BrowseServer
from trainer_utils.format import Feature

HOSTILE = "<script>alert(1)</script>\x1b[31m\"'{{7*7}}"


@pytest.fixture(scope="module")
def dataset(photos, write_dataset, tmp_path_factory):
    def example(n):
        stream = io.BytesIO()
        Image.fromarray(photos[n % 30]).save(stream, "PNG")
        return {
            "image": [stream.getvalue()],
            "label": [n % 2],
            "filename": [f"{'Dog' if n % 2 else 'cat'}/{n:04d}.png".encode()],
            "note": [HOSTILE.encode()],
            "vector": [float(n), 2.0],
        }

    examples = [example(n) for n in range(100)]
    uri = write_dataset(
        tmp_path_factory.mktemp("browse") / "dataset",
        {"train": [examples[:30], examples[30:90]], "eval": [examples[90:]]},
        {"label": Feature(type="int")},
    )
    os.mkdir(f"{uri}/vocab")
    with open(f"{uri}/vocab/label.txt", "w") as stream:
        stream.write("cat\ndog\n")
    return uri


@pytest.fixture(scope="module")
def server(dataset):
    with BrowseServer(dataset) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server):
    def get(path, **fields):
        query = f"?{urllib.parse.urlencode(fields)}" if fields else ""
        with urllib.request.urlopen(f"{server.url.rstrip('/')}{path}{query}") as answer:
            return answer.read(), answer.headers

    return get


def test_the_list_links_to_records_and_their_files(get, photos):
    page = get("/", split="eval")[0].decode()
    links = re.findall(r'href="(/record[^"]*)"', page)
    assert len(links) == 10
    record = get(links[1].replace("&amp;", "&"))[0].decode()
    assert "Dog/0091.png" in record
    assert "1 (dog)" in record
    assert "[91.0, 2.0]" in record
    (image,) = re.findall(r'<img class="whole" src="([^"]*)"', record)
    data, headers = get(image.replace("&amp;", "&"))
    assert headers["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(data)).tobytes() == photos[91 % 30].tobytes()


def numbers_in(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'href="/record[^"]*number=(\d+)', page)]


def test_records_of_a_class_are_listed(get):
    page = get("/", split="eval", label="dog")[0].decode()
    assert numbers_in(page) == [1, 3, 5, 7, 9]
    assert "5 found in records 0 to 10 of 10" in page
    assert '<option value="dog" selected>' in page
    assert numbers_in(get("/", split="eval", label="1")[0].decode()) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize(
    ("fields", "numbers"),
    [
        ({"text": "DOG/009"}, [1, 3, 5, 7, 9]),
        ({"text": "0094.png"}, [4]),
        ({"text": "<SCRIPT>"}, [*range(10)]),
        ({"text": "009", "label": "cat"}, [0, 2, 4, 6, 8]),
        ({"text": "nowhere"}, []),
        ({"text": "", "label": ""}, [*range(10)]),
    ],
)
def test_records_that_contain_a_string_are_listed(get, fields, numbers):
    assert numbers_in(get("/", split="eval", **fields)[0].decode()) == numbers


def test_search_continues_where_a_page_ends(get, monkeypatch):
    monkeypatch.setattr(browse, "_MAX_SEARCHED", 40)
    monkeypatch.setattr(browse, "_PAGE_RECORDS", 8)
    path, found, pages = "/?split=train&label=cat&text=png", [], 0
    while path:
        page = get(path)[0].decode()
        found += numbers_in(page)
        links = re.findall(r'<p><a href="([^"]*)">', page)
        path, pages = (links[0].replace("&amp;", "&") if links else ""), pages + 1
    assert found == [*range(0, 90, 2)]
    assert pages == 6  # eight records each


def test_search_without_a_hit_says_how_far_it_went(get, monkeypatch):
    monkeypatch.setattr(browse, "_MAX_SEARCHED", 40)
    page = get("/", split="train", text="nowhere")[0].decode()
    assert "0 found in records 0 to 40 of 90" in page
    assert "Search on" in page


def test_hostile_strings_are_escaped(get):
    page, headers = get("/record", split="train", number=3)
    text = page.decode()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "{{7*7}}" in text
    assert "\x1b" not in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script" not in headers["Content-Security-Policy"]


def test_unknown_pages_are_not_found(get, subtests):
    for path, status in (
        ("/nothing", 404),
        ("/record?split=train&number=90", 404),
        ("/record?split=train&number=-1", 404),
        ("/record?split=none&number=0", 404),
        ("/record", 404),
        ("/file?split=train&number=0&feature=label", 404),
        ("/?name=nobody", 500),
        ("/../../etc/passwd", 404),
    ):
        with subtests.test(path=path):
            with pytest.raises(urllib.error.HTTPError) as raised:
                get(path)
            assert raised.value.code == status, path
            raised.value.close()


@pytest.mark.parametrize("host", ["evil.example:80", "127.0.0.1:1"])
def test_requests_for_other_hosts_are_refused(server, host):
    assert server.server_address[0] == "127.0.0.1"
    request = urllib.request.Request(server.url, headers={"Host": host})
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request)
    assert raised.value.code == 403
    raised.value.close()
    with pytest.raises(urllib.error.HTTPError) as raised:  # only GET is supported
        urllib.request.urlopen(urllib.request.Request(server.url, method="POST", data=b"x"))
    assert raised.value.code == 501
    raised.value.close()


def test_damaged_record_is_reported_and_others_shown(dataset, tmp_path):
    import shutil

    copy = shutil.copytree(dataset, tmp_path / "copy")
    (shard,) = sorted((copy / "Split-eval").iterdir())
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with BrowseServer(str(copy)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"{server.url}record?split=eval&number=0")
        assert raised.value.code == 500
        assert "data_tfrecord-00000-of-00001" in raised.value.read().decode()
        assert urllib.request.urlopen(f"{server.url}record?split=eval&number=9").status == 200
        server.shutdown()
