"""Each notebook of the documentation runs from the first cell to the last."""

import os

import pytest

from tests.docs.markdown import REPOSITORY

pytest.importorskip("tfx", reason="the notebooks run the components")
nbformat = pytest.importorskip("nbformat", reason="notebooks are executed where Jupyter is")
nbclient = pytest.importorskip("nbclient", reason="notebooks are executed where Jupyter is")
pytest.importorskip("ipykernel", reason="notebooks are executed where Jupyter is")

NOTEBOOKS = sorted((REPOSITORY / "docs").rglob("*.ipynb"))
# tests/trainer_utils/frameworks/test_torch_page.py runs the notebook of PyTorch.
WITH_TFX = [path for path in NOTEBOOKS if "InteractiveContext" in path.read_text()]


def test_notebooks_exist_and_have_no_outputs(subtests):
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        with subtests.test(path=path):
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
            assert not any(cell.get("outputs") for cell in notebook.cells), path.name


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_TFX, ids=lambda path: path.name)
def test_notebook_runs_and_shows_its_results(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY)]))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises if a cell raises
    shown = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    reports = [html for html in shown if "srcdoc" in html]
    assert len(reports) == 2
    assert all("dahlia_petals" in html for html in reports)
    (last,) = notebook.cells[-1].outputs[-1:]
    assert "64, 64, 3" in last["data"]["text/plain"]
