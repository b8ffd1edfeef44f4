"""Speech Commands, Common Voice, LJSpeech, VCTK, LibriTTS and LibriSpeech in published form."""

import csv
import io

import numpy as np
import pytest

from components.inputs.listing import FileTable, LayoutInputs
from components.layouts.reading import name_layout, read_layout
from pipelines import convert
from tests.cases.examples import read_examples
from tests.make import wav, write_files
from trainer_utils.core.errors import InputError
from trainer_utils.storage import list_files


def inputs_of(base, **options) -> LayoutInputs:
    files = FileTable.of(list_files(str(base)))
    return LayoutInputs(base=str(base), root="", files=files, media="audio", **options)


def listing_of(base, files, **options):
    inputs = inputs_of(write_files(base, files), **options)
    return name_layout(inputs, layout="auto"), read_layout(inputs, layout="auto")


def clip(number: int = 0) -> bytes:
    return wav(frames=100 + number)


# Speech Commands

COMMANDS = {
    f"{word}/{speaker:08x}_nohash_{take}.wav": b"?"
    for word in ("yes", "no")
    for speaker in range(3)
    for take in range(2)
}
LISTS = {
    "validation_list.txt": "yes/00000001_nohash_0.wav\nno/00000001_nohash_1.wav\n",
    "testing_list.txt": "yes/00000002_nohash_0.wav\r\nno/00000002_nohash_0.wav\r\n",
}
OTHERS = {
    "_background_noise_/pink_noise.wav": b"?",
    "_background_noise_/README.md": "Noise.",
    "README.md": "## Speech Commands",
    "LICENSE": "CC BY",
}


def test_splits_of_speech_commands_come_from_its_lists(tmp_path):
    name, listing = listing_of(tmp_path / "in", {**COMMANDS, **LISTS, **OTHERS})
    assert name == "split_lists"
    listed = {
        line: split
        for list_name, split in (("validation_list.txt", "eval"), ("testing_list.txt", "test"))
        for line in LISTS[list_name].split()
    }
    assert {entry.name: (entry.split, entry.values) for entry in listing.entries} == {
        name: (listed.get(name, "train"), (name.split("/")[0],)) for name in COMMANDS
    }
    assert {(left.name, left.code) for left in listing.excluded} == {(n, None) for n in OTHERS}


def test_files_in_no_list_are_skipped_if_train_is_a_list(tmp_path):
    lists = {"train_list.txt": "yes/00000000_nohash_0.wav\n", **LISTS}
    _, listing = listing_of(tmp_path / "in", {**COMMANDS, **lists})
    assert len(listing.entries) == 5
    assert {left.code for left in listing.excluded} == {None}
    assert len(listing.excluded) == len(COMMANDS) - 5


def test_a_listed_file_that_is_missing_is_a_reject(tmp_path):
    _, listing = listing_of(tmp_path / "in", {**COMMANDS, "testing_list.txt": "no/9.wav\nno/8.wav"})
    rejects = [left for left in listing.excluded if left.code]
    assert [(r.name, r.split, r.code) for r in rejects] == [
        (f"no/{n}.wav", "test", "FILE_NOT_FOUND") for n in (9, 8)
    ]
    assert "testing_list.txt, line 1" in rejects[0].detail


def test_a_file_in_two_lists_is_refused(tmp_path):
    lists = dict.fromkeys(LISTS, "yes/00000000_nohash_0.wav\n")
    with pytest.raises(InputError, match=r"one split for 'yes/00000000_nohash_0\.wav'"):
        listing_of(tmp_path / "in", {**COMMANDS, **lists})


# Common Voice

SENTENCES = ['"Yes?" he said.', '"open', "plain words", "it's fine", 'he said "no"', "a,b;c|d"]
HEAD = "client_id\tpath\tsentence\tup_votes\tage\tlocale\tsegment\n"


def rows_of(numbers) -> str:
    return HEAD + "".join(f"c{n}\tcv_{n}.mp3\t{SENTENCES[n]}\t2\t\ten\t\n" for n in numbers)


def common_voice() -> dict[str, str | bytes]:
    tables = {"train": range(3), "dev": [3], "test": [4, 5], "validated": range(6)}
    files: dict[str, str | bytes] = {f"{name}.tsv": rows_of(n) for name, n in tables.items()}
    files["other.tsv"] = HEAD + "c9\tcv_9.mp3\tother\t0\t\ten\t\n"
    return files | {f"clips/cv_{n}.mp3": b"?" for n in (*range(6), 9)}


def test_common_voice_is_read_by_its_splits_and_verbatim(tmp_path, caplog):
    name, listing = listing_of(tmp_path / "in", common_voice())
    assert name == "common_voice"
    columns = [column.name for column in listing.columns]
    found = {
        entry.name: (entry.split, dict(zip(columns, entry.values, strict=True))["sentence"])
        for entry in listing.entries
    }
    splits = ["train"] * 3 + ["eval"] + ["test"] * 2
    # The oracle is Python's csv reader without quoting.
    text = rows_of(range(6))
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    assert found == {
        f"clips/{row['path']}": (split, row["sentence"])
        for row, split in zip(rows, splits, strict=True)
    }
    assert "not read, because train, dev and test are: other.tsv, validated.tsv" in caplog.text


# LJSpeech

TRANSCRIPTS = {
    "LJ001-0001": ('Printing, "in the only sense', "Printing, in the only sense"),
    "LJ001-0002": ("in 1455", "in fourteen fifty-five"),
    "LJ001-0003": ("it's fine", "it's fine"),
}


@pytest.mark.parametrize("columns", [1, 2])
def test_ljspeech_has_its_transcripts_verbatim(tmp_path, columns):
    lines = ["|".join([key, *texts[:columns]]) for key, texts in TRANSCRIPTS.items()]
    files = {f"wavs/{key}.wav": b"?" for key in TRANSCRIPTS}
    files |= {"metadata.csv": "\n".join(lines) + "\n", "README": "LJ Speech"}
    name, listing = listing_of(tmp_path / "in", files)
    assert name == "ljspeech"
    assert [column.name for column in listing.columns] == ["text", "normalized_text"][:columns]
    assert {entry.name: entry.values for entry in listing.entries} == {
        f"wavs/{key}.wav": texts[:columns] for key, texts in TRANSCRIPTS.items()
    }


# Speakers

VCTK = {
    f"wav48/p{speaker}/p{speaker}_{n:03d}.wav": (f"p{speaker}", f"Text {n} of {speaker}.")
    for speaker in (225, 226, 227)
    for n in range(1, 4)
}


def vctk(ending: str = ".wav", data=None) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for number, (path, (speaker, text)) in enumerate(VCTK.items()):
        stem = path.rpartition("/")[2].removesuffix(".wav")
        files[path.replace(".wav", ending)] = b"?" if data is None else data(number)
        files[f"txt/{speaker}/{stem}.txt"] = f"{text}\n"
    return files


@pytest.mark.parametrize("ending", [".wav", "_mic1.flac"])
def test_vctk_has_transcripts_and_speakers(tmp_path, ending):
    name, listing = listing_of(tmp_path / "in", vctk(ending))
    assert name == "speakers"
    assert {entry.name: entry.values for entry in listing.entries} == {
        path.replace(".wav", ending): (text, speaker) for path, (speaker, text) in VCTK.items()
    }


def test_libritts_has_the_speaker_above_the_chapter(tmp_path):
    files: dict[str, str | bytes] = {}
    for split in ("train-clean-100", "dev-clean"):
        for speaker in ("84", "174"):
            stem = f"{split}/{speaker}/1211/{speaker}_1211_7"
            files |= {
                f"{stem}.wav": b"?",
                f"{stem}.original.txt": "Mr. X",
                f"{stem}.normalized.txt": f"Mister X of {speaker}",
            }
    _, listing = listing_of(tmp_path / "in", files)
    assert {(e.split, e.values) for e in listing.entries} == {
        (split, (f"Mister X of {speaker}", speaker))
        for split in ("train", "eval")
        for speaker in ("84", "174")
    }


def test_librispeech_has_one_transcript_for_a_chapter(tmp_path):
    files: dict[str, str | bytes] = {"SPEAKERS.TXT": "84 | F", "README.TXT": "LibriSpeech"}
    files = {f"LibriSpeech/{name}": data for name, data in files.items()}
    for speaker in ("84", "174"):
        stem = f"LibriSpeech/dev-clean/{speaker}/1211/{speaker}-1211"
        files |= {f"{stem}-{n:04d}.flac": b"?" for n in range(3)}
        files[f"{stem}.trans.txt"] = "".join(
            f"{speaker}-1211-{n:04d} WORDS {n} OF {speaker}\n" for n in range(2)
        )
    name, listing = listing_of(tmp_path / "in", files)
    assert name == "speakers"
    assert {(e.split, e.values) for e in listing.entries} == {
        ("eval", (f"WORDS {n} OF {speaker}", speaker)) for speaker in ("84", "174") for n in (0, 1)
    }
    assert {(left.name, left.code) for left in listing.excluded} == {
        (f"LibriSpeech/dev-clean/{speaker}/1211/{speaker}-1211-0002.flac", "NO_ANNOTATION")
        for speaker in ("84", "174")
    }


def test_a_clip_without_its_transcript_is_a_reject(tmp_path):
    files = vctk()
    del files["txt/p225/p225_001.txt"]
    _, listing = listing_of(tmp_path / "in", files)
    (left,) = listing.excluded
    assert (left.name, left.code) == ("wav48/p225/p225_001.wav", "NO_ANNOTATION")


def test_a_speaker_is_in_one_split(tmp_path):
    base = write_files(tmp_path / "in", vctk(data=clip))
    convert(str(base), str(tmp_path / "out"), kind="audio", group_by="speaker", seed=3)
    found = read_examples(str(tmp_path / "out"))
    speakers = [{example["speaker"] for example in examples} for examples in found.values()]
    assert sum(map(len, speakers)) == 3
    assert sum(len(examples) for examples in found.values()) == len(VCTK)
    assert np.all([len(each) > 0 for each in speakers])


def test_class_folders_are_grouped_by_their_label(tmp_path):
    files = {path.removeprefix("wav48/"): clip(n) for n, path in enumerate(VCTK)}
    base = write_files(tmp_path / "in", files)
    convert(str(base), str(tmp_path / "out"), kind="audio", group_by="label", seed=3)
    found = read_examples(str(tmp_path / "out"))
    assert sum(len({e["label"] for e in examples}) for examples in found.values()) == 3
