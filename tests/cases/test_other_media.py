"""Images and audio files of unsupported formats, and broken links, are named with their cure."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pipelines
from tests.cases.examples import all_of, read_examples
from tests.make import jpeg, photo, wav, write_files
from trainer_utils.core.errors import InputError

M4A = b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom" + b"\0" * 200


def refusal(source: Path, out: Path) -> str:
    with pytest.raises(InputError) as refused:
        pipelines.convert(str(source), str(out))
    return "\n".join((str(refused.value), *refused.value.details))


@pytest.mark.parametrize(
    ("ending", "kind", "mode"),
    [("ppm", "PPM", "RGB"), ("pgm", "PPM", "L"), ("PPM", "PPM", "RGB"), ("jp2", "JPEG2000", "RGB")],
)
def test_other_images_are_converted_by_the_command(
    ending: str, kind: str, mode: str, tmp_path: Path
) -> None:
    files = {f"{c}/{n}.{ending}": photo(n, kind, mode) for c in "ab" for n in range(3)}
    write_files(tmp_path / "the in", {**files, "a/GT-a.csv": "Filename;ClassId\n0.ppm;1\n"})
    command = re.search(
        r": (python3 .*) && (tfx-shards .*)\.", refusal(tmp_path / "the in", tmp_path)
    )
    assert command is not None
    subprocess.run([sys.executable, *shlex.split(command[1])[1:]], check=True)
    arguments = shlex.split(command[2])
    assert arguments[1:5] == ["convert", str(tmp_path / "the in"), "OUT", "--ignore"]
    ignore = [arguments[5], "*.csv"]
    result = pipelines.convert(arguments[2], str(tmp_path / "out"), ignore=ignore)
    labels = sorted(example["label"] for example in all_of(read_examples(result)))
    assert labels == [*"aaabbb"]


def test_other_audio_files_are_refused_with_a_way_to_convert(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {f"{c}/{n}.m4a": M4A for c in "ab" for n in range(3)})
    message = refusal(tmp_path / "in", tmp_path / "out")
    assert "found 6 audio files in others, such as 'a/0.m4a'. Convert them to WAV" in message


def test_other_audio_file_among_clips_is_named(tmp_path: Path) -> None:
    clips = {f"{c}/{n}.wav": wav(n) for c in "ab" for n in range(3)}
    write_files(tmp_path / "in", {**clips, "a/x.m4a": M4A})
    message = refusal(tmp_path / "in", tmp_path / "out")
    assert "a/x.m4a: UNSUPPORTED_FORMAT (expected WAV, FLAC, OGG or MP3, got MPEG-4" in message


def test_broken_link_is_reported_with_its_target(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {f"{c}/{n}.jpg": jpeg(n) for c in "ab" for n in range(3)})
    os.symlink("../nowhere.jpg", tmp_path / "in/a/9.jpg")
    message = refusal(tmp_path / "in", tmp_path / "out")
    assert "a/9.jpg: UNREADABLE (a link to '../nowhere.jpg', which does not exist)" in message
    assert "restore the target of the link" in message
