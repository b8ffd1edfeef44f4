"""Images and label maps in VOC's folders, against Datum's own generator."""

import os

import pytest


def pairs(*names: str) -> dict[str, bytes]:
    """The files of some images with their label maps."""
    images = {f"JPEGImages/{name}.jpg": os.fsencode(f"image {name}") for name in names}
    return images | {
        f"SegmentationClass/{name}.png": os.fsencode(f"map of {name}") for name in names
    }


def found(listing) -> dict[str, str | None]:
    return {entry.name: entry.split for entry in listing.entries}


@pytest.mark.parametrize(
    ("prefix", "datums_folder"),
    [
        ("ImageSets/Segmentation/", "ImageSets/Segmentation"),
        ("ImageSets/", "ImageSets"),
        ("", None),
    ],
)
def test_pairs_and_splits_are_datums_wherever_the_sets_lie(
    tmp_path, read, write, prefix, datums_folder
):
    from datum.generator.image import SegDatumGenerator

    write(tmp_path, **pairs("a", "b", "c d"))
    write(tmp_path, **{f"{prefix}train.txt": "a\nc d\n", f"{prefix}val.txt": "b\n"})
    listing = read(tmp_path)
    assert (listing.blobs, listing.columns) == ((("image", "image"), ("label", "label_map")), ())
    for theirs, ours in (("train", "train"), ("val", "eval")):
        kwargs = {"set_dir": datums_folder} if datums_folder else {}
        expected = dict(SegDatumGenerator(str(tmp_path), None)(split=theirs, **kwargs))
        assert [
            [str(tmp_path / blob.path) for blob in entry.blobs]
            for entry in listing.entries
            if entry.split == ours
        ] == [[pair["image"], pair["label"]] for pair in expected.values()]


def test_without_sets_a_hash_decides(tmp_path, read, write):
    write(tmp_path, **pairs("a"), **{"ImageSets/Segmentation/trainval.txt": "a\n"})
    assert found(read(tmp_path)) == {"JPEGImages/a.jpg": None}


def test_an_image_without_its_label_map_is_left_out_of_any_split(tmp_path, read, write):
    split = "test"
    write(tmp_path, **pairs("a"), **{"JPEGImages/b.jpg": "", f"{split}.txt": "a\nb\ngone\n"})
    write(tmp_path, **{"SegmentationObject/b.png": "", "SegmentationClass/other.png": ""})
    listing = read(tmp_path)
    assert found(listing) == {"JPEGImages/a.jpg": split}
    assert [(o.name, o.split, o.code) for o in listing.excluded] == [
        ("gone", split, "FILE_NOT_FOUND"),
        ("JPEGImages/b.jpg", split, "NO_LABEL_MAP"),
    ]
    assert listing.excluded[1].detail == "no label map SegmentationClass/b.png"
