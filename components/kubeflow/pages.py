"""A page as Kubeflow shows one: a file of type `system.HTML`, where TFX has a folder with it.

with page_folder("/minio/mlpipeline/runs/1/report") as folder:
    Executor().Do(…)                    # writes `report.html` into it
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator

__all__ = ["PAGE_OUTPUT", "PAGE_TYPE", "page_folder"]

PAGE_OUTPUT = ("report", "tfx.File")
"""Name and TFX type of the output of DatasetReport, which has a page."""

PAGE_TYPE = "system.HTML"
_PAGE_SUFFIX = ".html"


@contextlib.contextmanager
def page_folder(path: str) -> Iterator[str]:
    """A folder for an executor; the page that it leaves there becomes the file at `path`."""
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield folder
        (page,) = (name for name in os.listdir(folder) if name.endswith(_PAGE_SUFFIX))
        os.replace(os.path.join(folder, page), path)
