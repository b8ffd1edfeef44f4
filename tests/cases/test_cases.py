"""Each input that people have is converted correctly, or refused with a cure that works.

A case without `cure` must be right with default settings. A case with `cure` must be refused, or
converted with a warning, by a message that contains the advice, and be right with those settings.
"""

import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pipelines
from tests.cases import inputs
from tests.cases.examples import all_of, boxes_in_pixels, by_name, counts, read_examples
from trainer_utils.core.errors import TfxShardsError

Splits = Mapping[str, list[dict[str, Any]]]


@dataclasses.dataclass(frozen=True)
class Case:
    """An input, the right result, and the settings that a message must name to get there.

    `advice` are strings that the message contains; `then` is a further setting and the advice that
    names it, where the first setting leads to another message; `below` is the folder to convert.
    """

    make: Callable[..., None]
    check: Callable[[Splits], None]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cure: Mapping[str, Any] | None = None
    advice: Sequence[str] = ()
    then: tuple[Mapping[str, Any], str] | None = None
    below: str = ""


def labels_of(splits: Splits) -> dict[str, str]:
    return {name: example["label"] for name, example in by_name(splits).items()}


# Checks


def check_label_studio(splits: Splits) -> None:
    _check_coco(splits, 6, "images/{:08x}-photo.jpg")


def check_many_of_label_studio(splits: Splits) -> None:
    found = all_of(splits)
    assert len(found) == 150
    assert {example["labels"][0] for example in found} == {"cat", "dog"}
    assert all(len(example["xmin"]) == 1 for example in found)


def check_string_ids(splits: Splits) -> None:
    found = by_name(splits)
    _check_coco(splits, 6, "{:04x}2b-photo.jpg")
    assert {name: e["image_id"] for name, e in found.items()} == {
        f"{n:04x}2b-photo.jpg": f"img-{n}" for n in range(6)
    }


def _check_coco(splits: Splits, count: int, name: str) -> None:
    found = by_name(splits)
    assert len(found) == count
    for number in range(count):
        example = found[name.format(number).rpartition("/")[2]]
        left = 10.0 * number
        box = (left, 20.0, left + 20, 36.0)
        assert boxes_in_pixels(example, inputs.LARGE) == [(("cat", "dog")[number % 2], box)]


def check_red_block(splits: Splits) -> None:
    found = all_of(splits)
    assert len(found) == 4
    for example in found:
        image = Image.open(io.BytesIO(example["image"]))
        assert image.getexif().get(274, 1) == 1
        assert (example["width"], example["height"]) == image.size
        ((_, box),) = boxes_in_pixels(example, image.size)
        assert box == inputs.RED_BLOCK
        left, top, right, bottom = map(int, box)
        pixels = np.asarray(image.convert("RGB")).astype(int)
        inside = pixels[top + 4 : bottom - 4, left + 4 : right - 4]
        assert np.abs(inside - [255, 0, 0]).max() < 40  # JPEG


def check_detection_csv(splits: Splits) -> None:
    _check_rows_of_boxes(splits, {"p0.jpg": [("dog", (150, 100, 200, 200))]})


def check_one_box_each(splits: Splits) -> None:
    _check_rows_of_boxes(splits, {})


def _check_rows_of_boxes(splits: Splits, more: Mapping[str, Any]) -> None:
    found = by_name(splits)
    assert {name: boxes_in_pixels(e, inputs.LARGE) for name, e in found.items()} == {
        f"p{n}.jpg": [("cat", (10 + n, 20, 100 + n, 80)), *more.get(f"p{n}.jpg", [])]
        for n in range(4)
    }
    assert all((e["width"], e["height"]) == inputs.LARGE for e in found.values())


def check_captions(splits: Splits) -> None:
    found = by_name(splits)
    assert {name: example["caption"] for name, example in found.items()} == {
        f"p{n}.jpg": [f"Caption {k} of photo {n} , with a dog ." for k in range(5)]
        for n in range(4)
    }


def check_caption_rows(splits: Splits) -> None:
    found = sorted(example["caption"] for example in all_of(splits))
    assert found == sorted(
        f"Caption {k} of photo {n} , with a dog ." for n in range(4) for k in range(5)
    )


def check_hub_folder(splits: Splits) -> None:
    assert {
        split: sorted(example["text"] for example in examples) for split, examples in splits.items()
    } == {"train": [f"text of {n}" for n in (0, 1, 3, 4)], "test": ["text of 2", "text of 5"]}


def check_roboflow(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "eval": 2}
    for example in all_of(splits):
        assert boxes_in_pixels(example, inputs.LARGE) == [("cat", (10, 20, 110, 100))]


def check_yolo(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "eval": 2}
    found = by_name(splits)
    second = ("dog", (48, 36, 80, 60))
    for number in range(8):
        expected = [(("cat", "dog")[number % 2], (120, 90, 200, 150)), second]
        boxes = boxes_in_pixels(found[f"p{number}.jpg"], inputs.LARGE)
        assert boxes == ([] if number == 5 else sorted(expected))


def check_chest_xrays(splits: Splits) -> None:
    found = by_name(splits)
    assert len(found) == 12
    for number in range(12):
        example = found[f"{number // 3 + 1:08d}_{number % 3:03d}.png"]
        assert example["Finding Labels"] == inputs.CHEST_LABELS[number % 3].split("|")


def check_retina(splits: Splits) -> None:
    found = {name.removesuffix(".png"): e for name, e in by_name(splits).items()}
    expected = {i: n % 5 for n, i in enumerate(inputs.RETINA_IDS) if n != 3}
    assert {name: int(float(e["diagnosis"])) for name, e in found.items()} == expected


def check_windows(splits: Splits) -> None:
    found = by_name(splits)
    assert len(found) == 6
    for number in range(6):
        example = found[f"p{number}.jpg"]
        assert example["label"] == ("Aepfel", "Birne")[number % 2]
        assert example["note"] == f"schön {number}"
        assert example["weight"] == pytest.approx(number / 10 + 0.05)


def check_cats_and_dogs(count: int, **splits_expected: int) -> Callable[[Splits], None]:
    """Return a check of `p<n>.jpg` in class folders: every second one is a dog."""

    def check(splits: Splits) -> None:
        if splits_expected:
            assert counts(splits) == splits_expected
        assert {n.rpartition(".")[0]: label for n, label in labels_of(splits).items()} == {
            f"p{n}": inputs.CATS_AND_DOGS[n % 2] for n in range(count)
        }

    return check


def check_training_and_testing(splits: Splits) -> None:
    assert counts(splits) == {"train": 9, "test": 3}
    assert labels_of(splits) == {f"p{n}.jpg": ("glioma", "notumor")[n % 2] for n in range(12)}


def check_tiny_imagenet(splits: Splits) -> None:
    labelled = [one for split in ("train", "eval") for one in splits[split]]
    assert {e["filename"].rpartition("/")[2]: e["label"][0] for e in labelled} == {
        f"{inputs.IMAGENET_IDS[n % 3]}_{n}.JPEG": inputs.IMAGENET_IDS[n % 3] for n in range(15)
    } | {f"val_{n}.JPEG": inputs.IMAGENET_IDS[n % 3] for n in range(15, 21)}
    assert counts(splits) == {"train": 15, "eval": 6, "test": 3}
    assert not any(example.get("label") for example in splits["test"])


def check_restarting_keys(splits: Splits) -> None:
    assert counts(splits) == {"train": 6}
    assert sorted(example["label"] for example in splits["train"]) == [0] * 3 + [1] * 3
    assert len({example["image"] for example in splits["train"]}) == 6


def check_timm(splits: Splits) -> None:
    assert counts(splits) == {"train": 8, "eval": 4}


def check_sixteen_bits(splits: Splits) -> None:
    found = all_of(splits)
    assert len(found) == 4
    for example in found:
        pixels = np.asarray(Image.open(io.BytesIO(example["image"])))
        assert pixels.max() == 4095
        assert pixels[0, :4].tolist() == [0, 255, 256, 4095]


def check_large_jpeg(splits: Splits) -> None:
    sizes = {name: (e["width"], e["height"]) for name, e in by_name(splits).items()}
    assert sizes == {"big.jpg": (14093, 14093), "small.jpg": (32, 24)}


def check_common_voice(splits: Splits) -> None:
    assert {
        split: [e["sentence"] for e in _by_id(examples)] for split, examples in splits.items()
    } == {
        "train": list(inputs.COMMON_VOICE_SENTENCES[:3]),
        "eval": list(inputs.COMMON_VOICE_SENTENCES[3:4]),
        "test": list(inputs.COMMON_VOICE_SENTENCES[4:]),
    }


def _by_id(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(examples, key=lambda example: example["filename"])


def check_wav_of_pipes(splits: Splits) -> None:
    found = all_of(splits)
    assert len(found) == 8
    assert {example["num_frames"] for example in found} == {8000}


def check_speech_commands(splits: Splits) -> None:
    assert counts(splits) == {"train": 12, "eval": 3, "test": 3}
    assert {example["label"] for example in all_of(splits)} == {"yes", "no", "up"}


def check_many_speech_commands(splits: Splits) -> None:
    assert counts(splits) == {"train": 300, "eval": 75, "test": 75}
    assert {example["label"] for example in all_of(splits)} == {"yes", "no", "up"}


def check_partitions(splits: Splits) -> None:
    found = {example["text"]: example for example in all_of(splits)}
    assert {text: (e["label"], e["stars"]) for text, e in found.items()} == {
        f"{label} text {part} {n} of some words": (label, n)
        for label in ("pos", "neg")
        for part in range(2)
        for n in range(4)
    }


def check_chats(splits: Splits) -> None:
    _check_chats(splits, inputs.CHATS)


def check_chats_with_tool_calls(splits: Splits) -> None:
    _check_chats(splits, [[*inputs.CHATS[0], inputs.TOOL_CALL], *inputs.CHATS[1:]])


def _check_chats(splits: Splits, chats: Sequence[Any]) -> None:
    found = [json.loads(example["messages"]) for example in all_of(splits)]
    assert sorted(found, key=json.dumps) == sorted(chats, key=json.dumps)


def check_hub_texts(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "eval": 2, "test": 3}
    labels = {"train": [0, 1, 1, 0, 1, 0], "eval": [1, 0]}
    for split, numbers in labels.items():
        word = {"eval": "validation"}.get(split, split)
        assert {e["text"]: _first(e["label"]) for e in splits[split]} == {
            f"{word} words {n} here": ("neg", "pos")[label] for n, label in enumerate(numbers)
        }
    assert all(example.get("label") in (None, [], -1) for example in splits["test"])


def check_hub_images(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "test": 6}
    for examples in splits.values():
        assert sorted(example["label"] for example in examples) == ["cat"] * 3 + ["dog"] * 3


def check_nanoseconds(splits: Splits) -> None:
    found = {example["text"]: example for example in all_of(splits)}
    texts = [f"row {number} of text" for number in range(7)]
    assert sorted(found) == texts
    stamps = [_first(found[text].get("at")) for text in texts]
    assert stamps[0] == "2023-11-14T22:13:20.123456789"
    assert stamps[5].startswith("2023-11-14T22:13:20")
    assert stamps[6] is None


def _first(values: Any) -> Any:
    """Return the value of a feature that some examples lack, which is sparse; else None."""
    return values[0] if values else None


def check_roboflow_coco(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "eval": 2, "test": 2}
    for examples in splits.values():
        for example in examples:
            ((label, box),) = boxes_in_pixels(example, inputs.LARGE)
            assert box == (32, 24, 96, 72)
            assert label == inputs.CATS_AND_DOGS[example["image_id"] % 2]


def check_automl(splits: Splits) -> None:
    assert counts(splits) == {"train": 4, "test": 2}
    for example in all_of(splits):
        assert boxes_in_pixels(example, inputs.LARGE) == [("cat", (32, 24, 160, 120))]


def check_numbered_classes(splits: Splits) -> None:
    found = [(e["filename"].split("/")[-2], e["label"]) for e in all_of(splits)]
    assert sorted(found) == sorted(
        (c, c) for c in ("accordion", "camera", "lamp") for _ in range(5)
    )


def check_coco_captions(splits: Splits) -> None:
    assert counts(splits) == {"train": 4}
    found = {name: example["caption"] for name, example in by_name(splits).items()}
    assert found == {f"{n:012d}.jpg": [f"caption {k} of {n}" for k in range(5)] for n in range(4)}


def check_instructions(splits: Splits) -> None:
    found = {example["instruction"]: example["output"] for example in all_of(splits)}
    assert found == {f"do {n}": f"done {n}" for n in range(6)}


def check_nested_copy(splits: Splits) -> None:
    assert counts(splits) == {"train": 6, "eval": 6, "test": 6}
    assert {example["label"] for example in all_of(splits)} == {"NORMAL", "PNEUMONIA"}


# The table of cases

FOLLOWED = {"follow_links": True}
CASES: Mapping[str, Case] = {
    "01a": Case(inputs.coco_of_label_studio, check_label_studio),
    "01c": Case(inputs.coco_with_string_ids, check_string_ids),
    "35-1a": Case(
        inputs.coco_of_label_studio,
        check_many_of_label_studio,
        arguments={"count": 150, "size": inputs.SMALL},
    ),
    "02a": Case(
        inputs.rotated_photos_with_boxes,
        check_red_block,
        arguments={"stored": (400, 300)},
        cure={"box_frame": "displayed"},
        advice=["box_frame"],
    ),
    "02b": Case(
        inputs.rotated_photos_with_boxes,
        check_red_block,
        arguments={"stored": (300, 300)},
        cure={"box_frame": "displayed"},
        advice=["box_frame"],
    ),
    "03a": Case(inputs.detection_csv, check_detection_csv),
    "03b-txt": Case(inputs.captions, check_captions),
    "03b-csv": Case(inputs.captions, check_captions, arguments={"list_name": "captions.csv"}),
    "03b-folder": Case(inputs.captions, check_captions, arguments={"folder": "Images/"}),
    "03c": Case(inputs.detection_csv, check_one_box_each, arguments={"second_box": False}),
    "04a": Case(inputs.hub_folder_with_one_list, check_hub_folder),
    "04b": Case(inputs.hub_folder_with_list_per_split, check_hub_folder),
    "05a": Case(inputs.voc_of_roboflow, check_roboflow),
    "06a": Case(inputs.yolo_of_ultralytics, check_yolo),
    "07": Case(
        inputs.chest_xrays,
        check_chest_xrays,
        cure={"label_separator": "|"},
        advice=["label_separator"],
    ),
    "08": Case(
        inputs.ids_without_endings,
        check_retina,
        cure={"max_reject_fraction": 0.2},
        advice=["NO_LABEL", "max_reject_fraction"],
    ),
    "09a": Case(
        inputs.linked_split,
        check_cats_and_dogs(8, train=6, eval=2),
        cure=FOLLOWED,
        advice=["--follow-links", "valid"],
        below="photos",
    ),
    "35-9a": Case(
        inputs.linked_split,
        check_cats_and_dogs(152, train=114, eval=38),
        arguments={"count": 152},
        cure=FOLLOWED,
        advice=["--follow-links", "valid"],
        below="photos",
    ),
    "09c": Case(
        inputs.linked_photos,
        check_cats_and_dogs(8),
        cure=FOLLOWED,
        advice=["--follow-links"],
        below="photos",
    ),
    "10": Case(
        inputs.sixteen_bit_pngs,
        check_sixteen_bits,
        cure={"sixteen_bit": "keep"},
        advice=["sixteen_bit", "4095"],
    ),
    "11": Case(inputs.web_dataset_with_restarting_keys, check_restarting_keys),
    "12a": Case(inputs.web_dataset_of_timm, check_timm),
    "13": Case(inputs.common_voice, check_common_voice),
    "14a": Case(inputs.hive_partitions, check_partitions),
    "35-14": Case(inputs.hive_partitions, check_partitions, arguments={"spark": False}),
    "15a": Case(inputs.chats, check_chats),
    "15c": Case(inputs.chats_with_tool_calls, check_chats_with_tool_calls),
    "16a": Case(inputs.hub_texts_as_parquet, check_hub_texts),
    "17": Case(inputs.parquet_with_nanoseconds, check_nanoseconds),
    "18": Case(inputs.wav_of_pipes, check_wav_of_pipes),
    "19": Case(inputs.speech_commands, check_speech_commands),
    "35-19": Case(inputs.speech_commands, check_many_speech_commands, arguments={"per_word": 150}),
    "25": Case(inputs.archive_of_a_mac, check_cats_and_dogs(200)),
    "28": Case(inputs.tiny_imagenet, check_tiny_imagenet),
    "30": Case(
        inputs.list_from_windows,
        check_windows,
        cure={"delimiter": ";"},
        advice=["delimiter=';'", "--delimiter ';'"],
        then=({"list_encoding": "cp1252"}, "list_encoding="),
    ),
    "32": Case(inputs.hub_images_as_parquet, check_hub_images),
    "32-data": Case(inputs.hub_images_as_parquet, check_hub_images, below="data"),
    "33a": Case(inputs.photos_in_split_folders, check_training_and_testing),
    "33b-avif": Case(
        inputs.avif_and_heic_among_jpegs,
        check_cats_and_dogs(12),
        arguments={"with_heic": False},
    ),
    "33b": Case(
        inputs.avif_and_heic_among_jpegs,
        check_cats_and_dogs(12),
        cure={"ignore": ["*.HEIC"]},
        advice=["IMG_0001.HEIC"],  # which is damaged, or needs the extra that reads HEIC
    ),
    "roboflow-coco": Case(inputs.coco_of_roboflow, check_roboflow_coco),
    "automl-boxes": Case(inputs.automl_boxes, check_automl),
    "numbered-classes": Case(inputs.classes_numbered_alike, check_numbered_classes),
    "numbered-classes-in-wrapper": Case(
        inputs.classes_numbered_alike,
        check_numbered_classes,
        arguments={"wrapper": "101_ObjectCategories/"},
    ),
    "coco-captions": Case(inputs.captions_of_coco, check_coco_captions),
    "instructions": Case(inputs.instructions, check_instructions),
    "nested-copy": Case(
        inputs.nested_copy_of_splits,
        check_nested_copy,
        cure={"ignore": ["chest/chest/*"]},
        advice=["ignore=['chest/chest/*'] (--ignore 'chest/chest/*')"],
    ),
}

NOT_YET: Mapping[str, str] = {}


def _parameters() -> list[Any]:
    return [
        pytest.param(
            case,
            id=name,
            marks=pytest.mark.xfail(strict=False, reason=NOT_YET[name]) if name in NOT_YET else (),
        )
        for name, case in CASES.items()
    ]


@pytest.mark.parametrize("case", _parameters())
def test_input_is_right_or_refused_with_a_working_cure(
    case: Case, tmp_path: Path, our_messages: Callable[[], list[str]]
) -> None:
    case.make(tmp_path / "in", **case.arguments)
    source, settings = str(tmp_path / "in" / case.below), dict[str, Any]()
    if case.cure is not None:
        message = _refusal_or_warnings(source, tmp_path / "default", our_messages, settings)
        missing = [advice for advice in case.advice if advice not in message]
        assert not missing, message
        settings |= case.cure
    if case.then is not None:
        message = _refusal_or_warnings(source, tmp_path / "then", our_messages, settings)
        assert case.then[1] in message, message
        settings |= case.then[0]
    result = pipelines.convert(source, str(tmp_path / "out"), **settings)
    case.check(read_examples(result))


def _refusal_or_warnings(
    source: str, out: Path, our_messages: Callable[[], list[str]], settings: Mapping[str, Any]
) -> str:
    try:
        pipelines.convert(source, str(out), **settings)
    except TfxShardsError as refusal:
        assert not (out / "latest").exists()
        return str(refusal)
    return "\n".join(our_messages())
