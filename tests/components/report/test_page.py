"""Test the report's figures, that hostile data stays text, and that a browser can show it."""

import dataclasses
import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import ImageSettings, TextSettings
from components.report.html import load_template
from components.report.page import render_report, write_report
from components.report.sample import spread
from tests.make import jpeg, wav, write_files
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Accounting, Feature
from trainer_utils.format.lineage import Ancestor, DatasetInput, DatasetSummary, Origin, Step

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


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Convert photos in two classes, one of them damaged, and balance them; return the folder."""
    folder = tmp_path_factory.mktemp("converted")
    photos = {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(40)} | {"a/bad.jpg": b"none"}
    source = write_files(folder / "holiday photos", photos)
    examples = f"{folder}/artifacts/ImageExampleGen/examples/1"
    balanced = f"{folder}/artifacts/ShardBalancer/balanced_examples/1"
    steps.convert(str(source), examples, ImageSettings(max_reject_fraction=0.5))
    steps.balance([examples], balanced, BalancerSettings(num_shards={"train": 3, "eval": 1}))
    return balanced


def test_title_is_the_name_of_the_source(converted):
    page = render_report(converted)[0]
    assert "<h1>holiday photos</h1>" in page


def test_title_of_a_table_is_its_file_name(tmp_path):
    (tmp_path / "reviews.csv").write_text("text,label\n" + "good film,a\nbad film,b\n" * 20)
    steps.convert(f"{tmp_path}/reviews.csv", f"{tmp_path}/out/1", TextSettings())
    assert "<h1>reviews.csv</h1>" in render_report(f"{tmp_path}/out/1")[0]


def test_rejects_of_the_conversion_have_examples(converted):
    text = re.sub(r"\s+", " ", page_of(converted).text)
    assert "1 by ImageExampleGen, the step before" in text
    assert "a/bad.jpg" in text


def test_names_and_class_ids_have_no_histogram(converted):
    page = page_of(converted)
    charts = [bars["aria-label"] for bars in page.all("div") if bars.get("class") == "bars"]
    assert any("of image" in label for label in charts)
    assert not [label for label in charts if "filename" in label or "label" in label]
    assert re.search(r"Such as [ab]/\d+\.jpg", page.text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12345.678, "12,346"),
        (999.25, "999.2"),
        (0.00012345, "0.0001234"),
        (1e-9, "1e-09"),
        (-0.5, "-0.5"),
        (3.0, "3"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_plain(value, shown):
    assert load_template("page.html").environment.filters["number"](value) == shown


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(converted, tmp_path, width):
    measure = """<script>addEventListener("load", () => {
      const wide = [...document.querySelectorAll("*")].filter(
        (one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth);
      const names = wide.map((one) => `${one.tagName} ${one.className}`);
      parent.postMessage(`measured ${innerWidth}: ${names.join(", ")}`, "*");
    });</script></head>"""
    page = render_report(converted)[0].replace("</head>", measure)
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "frame.html").write_text(  # a window has at least 500 pixels, a frame has not
        '<script>addEventListener("message", (e) => { document.title = e.data; });</script>'
        f'<iframe src="page.html" width="{width}" height="800" style="border: 0"></iframe>'
    )
    switches = "--headless --no-sandbox --disable-gpu --window-size=1400,900 --dump-dom"
    shown = subprocess.run(
        [CHROMIUM, *switches.split(), f"--user-data-dir={tmp_path / 'u'}", tmp_path / "frame.html"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (title,) = re.findall("<title>(.*)</title>", shown.stdout)
    assert title == f"measured {width}: "
