"""Lists as AutoML writes them, which have no header."""

from tests.components.example_gen.list_files import folder, listed

AUTOML = {
    "split, uri, label": "TRAIN,{}1.jpg,cat\nTEST,{}2.jpg,dog\n",
    "uri, label": "{}1.jpg,cat\n{}2.jpg,dog\n",
    "uri alone": "{}1.jpg\n{}2.jpg\n",
    "uri, labels": "{}1.jpg,cat,red\n{}2.jpg,dog\n",
    "split, uri": ",{}1.jpg\nTRAIN,{}2.jpg\n",
}


def test_a_list_of_automl_s_has_no_header(tmp_path):
    splits = {"split, uri, label": ["train", "test"], "split, uri": [None, "train"]}
    labels = {"uri, labels": [("cat", "red"), ("dog",)], "uri alone": None, "split, uri": None}
    for number, (form, text) in enumerate(AUTOML.items()):
        base = folder(tmp_path / f"{number}")
        prefix = f"{base}/" if number % 2 else ""
        (base / "list.csv").write_text(text.replace("{}", prefix))
        listing = listed(base)
        assert [entry.name for entry in listing.entries] == ["1.jpg", "2.jpg"]
        assert [entry.split for entry in listing.entries] == splits.get(form, [None, None])
        expected = labels.get(form, ["cat", "dog"])
        assert [entry.values[0] for entry in listing.entries if expected] == (expected or [])
