"""Test the report's figures, that hostile data stays text, and that a browser can show it."""

import dataclasses
import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from components.report.page import render_report, write_report
from components.report.sample import spread
from tests.make import jpeg, wav
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Accounting, Feature
from trainer_utils.format.manifest import Ancestor, DatasetInput, DatasetSummary, Origin, Step

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\"'{{7*7}}"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page(html.parser.HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(uri):
    return Page(render_report(uri)[0])


@pytest.fixture(scope="module")
def examples():
    return [
        {
            "image": [jpeg(n, size=(48, 40))],
            "filename": [f"cat/{n}.jpg".encode()],
            "text": [f"this is the review number {n} of a good film".encode()],
            "score": [n / 2],
            "xmin": [0.1],
            "xmax": [0.6],
            "ymin": [0.2],
            "ymax": [0.9],
            "labels": [0],
            "audio": [wav(frames=4000)],
        }
        for n in range(12)
    ]


@pytest.fixture
def dataset(examples, write_dataset, tmp_path):
    splits = {"train": [examples[:4], examples[4:8]], "eval": [examples[8:]]}
    return write_dataset(tmp_path / "dataset", splits, {"score": Feature(type="float")})


@pytest.fixture
def hostile(examples, write_dataset, tmp_path):
    example = {**examples[0], HOSTILE: [HOSTILE.encode()], "filename": [HOSTILE.encode()]}
    example["text"] = [HOSTILE.encode() * 3]
    return write_dataset(tmp_path / "<script>x<", {"train": [[example]]}, {})


def test_figures_match_the_data(dataset):
    page = page_of(dataset)
    text = re.sub(r"\s+", " ", page.text)
    assert "8 records of train, 4 records of eval" in text
    table = text[text.index("score") :]
    assert re.search(r"train\s*0\s*1\.75\s*1\.75\s*3\.5\s*eval\s*4\s*4\.75\s*4\.75\s*5\.5", table)
    assert len(page.all("img")) == 10  # six of train, four of eval
    assert len([bars for bars in page.all("div") if bars.get("aria-label") == "Wave form"]) == 8
    assert {box["x"][:4] for box in page.all("rect") if "class" not in box} == {"0.10"}


def test_previous_steps_and_their_rejects_are_listed(dataset):
    made = open_dataset(dataset)
    counts = {"train": Accounting(found=12, written=9, rejected=3), "eval": Accounting()}
    before = dataclasses.replace(
        DatasetSummary.of(made.manifest), producer="Gen", accounting=counts, rejects={"EMPTY": 3}
    )
    step = Step(component="Gen", settings={"input_base": "photos/"})
    ancestor = Ancestor(digest="ab", summary=before, made_by=step)
    last = Step(component="Balance", inputs=(DatasetInput(name="examples", digest="ab"),))
    origin = Origin(made_by=last, ancestors=(ancestor,))
    Path(dataset, "lineage.json").write_text(origin.to_json())
    text = re.sub(r"\s+", " ", page_of(dataset).text)
    assert "Left out of 12 inputs3 rejected" in text
    assert "EMPTY 3 by Gen, the step before" in text
    assert re.search(r"1\. Gen, with .*input_base ?photos/", text)


def test_hostile_data_does_not_become_markup(dataset, hostile):
    page, harmless = page_of(hostile), page_of(dataset)
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in harmless.elements}
    assert not page.all("script")
    (policy,) = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy
    assert all(img["src"].startswith("data:image/jpeg;base64,") for img in page.all("img"))
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text  # as text
    assert "{{7*7}}" in page.text
    assert not set("\x1b\u202e") & set(page.text)


def test_damaged_record_is_a_finding(dataset, tmp_path):
    (shard, *_) = sorted((tmp_path / "dataset/Split-train").iterdir())
    data = bytearray(shard.read_bytes())
    data[2000] ^= 1
    shard.write_bytes(data)
    assert re.search(r"data_tfrecord-00000-of-00002.*byte \d+", page_of(dataset).text)


def test_sample_is_spread_over_all_records():
    assert [spread(*given) for given in ((0, 5), (3, 5), (10, 5), (7, 3))] == [
        [],
        [0, 1, 2],
        [0, 2, 4, 6, 8],
        [0, 2, 4],
    ]


def test_page_of_thousands_of_features_stays_small(write_dataset, tmp_path):
    example = {f"{n:04}{'x' * 500}": [n / 7] for n in range(2000)}
    example["text"] = [b"word " * 200_000]
    uri = write_dataset(tmp_path / "dataset", {"train": [[example, example]]}, {})
    page, _ = render_report(uri)
    assert len(page) < 1_000_000
    assert re.search(r"1,881\s+more features", page)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_browser_shows_the_page_without_an_error(hostile, tmp_path):
    write_report(hostile, str(tmp_path / "r.html"))
    switches = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    )
    switches += " --disable-component-update --disable-sync --disable-quic --enable-logging=stderr"
    found = subprocess.run(
        [
            CHROMIUM,
            *switches.split(),
            f"--user-data-dir={tmp_path / 'user'}",
            "--dump-dom",
            (tmp_path / "r.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in found.stderr
    assert "alert(1)" in Page(found.stdout).text
    assert not Page(found.stdout).all("script")
