"""Lists as AutoML writes them, which have no header."""

import pytest

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.layouts import read_layout
from tests.components.example_gen.list_files import folder, found, listed
from trainer_utils.format import InputError
from trainer_utils.storage import list_files

AUTOML = {
    "split, uri, label": "TRAIN,{}1.jpg,cat\nTEST,{}2.jpg,dog\n",
    "uri, label": "{}1.jpg,cat\n{}2.jpg,dog\n",
    "uri alone": "{}1.jpg\n{}2.jpg\n",
    "uri, labels": "{}1.jpg,cat,red\n{}2.jpg,dog\n",
    "split, uri": ",{}1.jpg\nTRAIN,{}2.jpg\n",
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("form", AUTOML)
def test_a_list_of_automl_s_has_no_header(tmp_path, form, whole):
    base = folder(tmp_path / "in")
    (base / "list.csv").write_text(AUTOML[form].replace("{}", f"{base}/" if whole else ""))
    listing = listed(base)
    assert [entry.name for entry in listing.entries] == ["1.jpg", "2.jpg"]
    splits = {"split, uri, label": ["train", "test"], "split, uri": [None, "train"]}
    assert [entry.split for entry in listing.entries] == splits.get(form, [None, None])
    labels = {"uri, labels": [("cat", "red"), ("dog",)], "uri alone": None, "split, uri": None}
    expected = labels.get(form, ["cat", "dog"])
    assert [entry.values[0] for entry in listing.entries if expected] == (expected or [])


def test_a_list_in_another_order_asks_and_takes_the_answer(tmp_path):
    base = folder(tmp_path, list__csv="cat,1.jpg\ndog,2.jpg\n")
    with pytest.raises(InputError, match=r"'list\.csv'.*column_names=.*--columns"):
        listed(base)
    inputs = LayoutInputs(
        base=str(base),
        root="",
        files=FileTable.of(list_files(str(base))),
        column_names=["label", "image"],
    )
    listing = read_layout(inputs, layout="auto")
    assert found(listing) == {"1.jpg": (None, "cat"), "2.jpg": (None, "dog")}
