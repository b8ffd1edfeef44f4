"""The documentation site is complete, builds in strict mode, and loads nothing from other hosts."""

import re
import subprocess
import sys

import pytest

from tests.docs.markdown import REPOSITORY

pytest.importorskip("mkdocs", reason="the extra docs builds the site")
pytest.importorskip("mkdocstrings", reason="the extra docs builds the site")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.slow
def test_site_has_every_page_and_public_name(site, subtests):
    pages = {
        path.relative_to(REPOSITORY / "docs").with_suffix(".html")
        for path in (REPOSITORY / "docs").rglob("*.md")
    }
    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}
    import components
    import trainer_utils

    for package in (components, trainer_utils):
        with subtests.test(package=package):
            page = (site / f"reference/{package.__name__}.html").read_text()
            named = set(re.findall(rf'id="{package.__name__}\.(\w+)"', page))
            assert set(package.__all__) <= named, set(package.__all__) - named
            declared = re.findall(r"(\w+)\(", re.sub("<[^>]+>", "", page))
            assert "setting" not in declared, "a declaration stands in place of a default"


@pytest.mark.slow
def test_site_loads_nothing_from_other_hosts(site):
    loads = re.compile(r'<(?:script|img|iframe|link rel="(?:icon|stylesheet)")[^>]*?="(https?:)?//')
    for page in site.rglob("*.html"):
        assert loads.search(page.read_text()) is None, page.name
