"""Test the number of requests to find and read files of a bucket that a list names."""

import concurrent.futures
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from components.example_gen.settings import ImageSettings
from components.runtime.runners import Runner
from components.steps import convert
from tests.make import photo
from tests.object_stores import Store, faulty
from trainer_utils.storage import file_system_of, find_files, list_files

_NUMBERS = itertools.count()


@pytest.fixture
def proxy(s3_store, monkeypatch) -> Iterator[Store]:
    with faulty(s3_store) as proxy:
        for name, value in proxy.environment.items():
            monkeypatch.setenv(name, value)
        yield proxy


def put(proxy: Store, names: Iterable[str], data: bytes = b"an image") -> str:
    """Write objects below a new folder, and return the folder."""
    base = f"{proxy.base}/named-{next(_NUMBERS)}"

    def write(name: str) -> None:
        with file_system_of(base).create(f"{base}/{name}") as stream:
            stream.write(data)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(write, names))
    proxy.counts(reset=True)
    return base


def write_list(folder: Path, lines: Iterable[str]) -> str:
    path = folder / "in/list.csv"
    path.parent.mkdir()
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def requests(proxy: Store) -> tuple[int, int, int]:
    counts = proxy.counts()
    lists = counts.get("LIST", 0)
    return lists, counts.get("HEAD", 0), counts.get("GET", 0) - lists


def as_listed(base: str, names: Iterable[str]) -> dict:
    wanted = {*names}
    return {file.path: file for file in list_files(base) if file.path in wanted}


def test_photos_of_one_folder_take_a_request_per_page(proxy):
    names = [f"photos/{k:04d}.jpg" for k in range(1200)]
    base = put(proxy, names)
    found = find_files(base, [*names, "photos/none.jpg"])
    assert requests(proxy) == (2, 0, 0)
    assert found == as_listed(base, names)


def test_photos_in_separate_folders_take_a_request_each(proxy):
    names = [f"{k:03d}/photo.jpg" for k in range(200)]
    base = put(proxy, [*names, *(f"{k:03d}/deep/er/{n}.bin" for k in range(3) for n in range(9))])
    found = find_files(base, [*names, "none/photo.jpg"])
    assert requests(proxy) == (201, 0, 0)
    assert found == as_listed(base, names)


def test_few_photos_of_a_large_folder_take_a_request_each(proxy):
    names = ["photos/0007.jpg", "photos/1111.jpg", "photos/ä~.jpg"]
    others = (f"photos/{k:04d}.jpg" for k in range(2500))
    base = put(proxy, [*others, "photos/ä~.jpg"])
    found = find_files(base, [*names[1:], names[0]])
    assert requests(proxy) == (3, 0, 0)
    assert found == as_listed(base, names)
    assert find_files(base, ["photos/0007.jp", "photos/000", "nowhere/1.jpg"]) == {}


def test_photos_of_a_local_list_are_requested_once(proxy, tmp_path):
    data = photo(1)
    names = [f"{k % 40:02d}/{k:04d}.jpg" for k in range(400)]
    base = put(proxy, names, data)
    rows = [f"{base}/{name},{'ab'[k % 2]}" for k, name in enumerate(names)]
    list_path = write_list(tmp_path, ["image,label", *rows])
    settings = ImageSettings(file_roots=[base])
    with Runner(processes=1) as runner:
        made = convert(list_path, str(tmp_path / "out"), settings, runner=runner)
    assert made.manifest.total.written == 400
    lists, heads, gets = requests(proxy)
    assert gets == 400
    assert lists <= 40 + 8  # one per folder, and some for the root and the first rows
    assert heads <= 4


def test_photos_in_a_bucket_are_read_concurrently(proxy, tmp_path):
    names = [f"{k}.jpg" for k in range(96)]
    base = put(proxy, names, photo(1))
    list_path = write_list(tmp_path, ["image", *(f"{base}/{name}" for name in names)])
    proxy.ask("set?delay=0.05")
    with Runner(processes=1) as runner:
        settings = ImageSettings(file_roots=[base])
        convert(list_path, str(tmp_path / "out"), settings, runner=runner)
    assert proxy.counts()["most_at_once"] > 8
