"""Test that ShardBalancer's manifest has the counts of the conversion before it."""

from tests.components.image_example_gen.image_runs import write_photos
from tests.components.runs import accounting
from trainer_utils.dataset import open_dataset


def test_discarded_rows_are_in_the_balanced_manifest(tmp_path):
    import pipelines

    base = write_photos(tmp_path / "in", *(f"{number}.jpg" for number in range(4)))
    rows = "TRAIN,0.jpg,a\nDISCARD,1.jpg,a\nTRAIN,2.jpg,b\nTEST,gone.jpg,b\nTEST,3.jpg,a\n"
    (base / "list.csv").write_text(f"split,image_uri,label\n{rows}")
    uri = pipelines.convert(str(base), str(tmp_path / "out"), max_reject_fraction=0.5)
    manifest = open_dataset(uri).manifest
    assert manifest.config["inputs"] == dict(found=5, written=3, rejected=1, skipped=1)
    assert accounting(vars(manifest.total)) == dict(found=3, written=3, rejected=0, skipped=0)
