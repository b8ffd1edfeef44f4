"""Read speech in folders of speakers with transcripts: VCTK, LibriTTS and LibriSpeech.

    wav48/p225/p225_001.wav               # audio; p225 is the speaker
    txt/p225/p225_001.txt                 # its transcript, in another folder
    84/121123/84_121123_000007.wav        # or next to it
    84/121123/84_121123_000007.normalized.txt
    84/121123/84-121123.trans.txt          # or for all clips of a folder: `ID TEXT` lines

The features are `text` and `speaker`. `group_by="speaker"` keeps all clips of a speaker in one
split. The name of a microphone at the end of a stem (`_mic1`) is not in the transcript's name.

Source: README of VCTK 0.92; README of LibriSpeech (openslr.org/12); "LibriTTS: A Corpus Derived
from LibriSpeech" (Zen et al., 2019).
"""

import collections
import re
from collections.abc import Mapping

from components.inputs.input_table import Blob, BlobColumn, Column, Entry, ExcludedInput, InputTable
from components.inputs.listing import LayoutInputs
from components.layouts.file_kinds import kind_of_name
from components.layouts.junk import is_clutter
from components.layouts.refusals import refuse_layout
from components.layouts.registry import Detection, Layout, register
from trainer_utils.format.media_formats import EXTENSIONS
from trainer_utils.format.split_words import split_of_name, splits_of_paths

_MICROPHONE = re.compile(r"_mic\d+$")
_NORMALIZED = ".normalized"
_ORIGINAL = ".original"
_OF_FOLDER = ".trans"

# The transcripts in a file by stem (`""` for a single one), and the reject for a clip without one.
_Texts = tuple[dict[str, str], tuple[str, str]]
_NO_TRANSCRIPT: _Texts = ({}, ("NO_ANNOTATION", "no transcript with the same name"))


def _transcripts(inputs: LayoutInputs) -> dict[tuple[str, str], str]:
    """Return the transcript files by speaker and stem, preferring normalized ones.

    The file for a whole folder has the stem `""`.
    """
    transcripts: dict[tuple[str, str], str] = {}
    for parts, path in inputs.paths_below_root(endings=(".txt",)):
        if len(parts) < 2 or is_clutter(parts):
            continue
        stem = parts[-1][: -len(".txt")]
        if stem.endswith(_OF_FOLDER):
            transcripts["/".join(parts[:-1]), ""] = path
            continue
        is_normalized = stem.endswith(_NORMALIZED)
        stem = stem.removesuffix(_NORMALIZED).removesuffix(_ORIGINAL)
        if is_normalized or (parts[-2], stem) not in transcripts:
            transcripts[parts[-2], stem] = path
    return transcripts


def _transcript_of(
    parts: tuple[str, ...], transcripts: Mapping[tuple[str, str], str]
) -> str | None:
    """Return the file with the transcript of a clip, or None."""
    transcript = transcripts.get(_key(parts))
    return transcript or transcripts.get(("/".join(parts[:-1]), ""))


def _key(parts: tuple[str, ...]) -> tuple[str, str]:
    stem = parts[-1].rpartition(".")[0]
    return parts[-2], _MICROPHONE.sub("", stem)


def detect(inputs: LayoutInputs) -> Detection:
    """Look for clips in folders. Most must have a transcript with the same name."""
    if inputs.root in inputs.files or not (transcripts := _transcripts(inputs)):
        return Detection.miss("no transcripts in folders")
    clips = with_transcript = 0
    for parts, _ in inputs.paths_below_root(endings=EXTENSIONS["audio"]):
        if len(parts) > 1 and not is_clutter(parts):
            clips += 1
            with_transcript += _transcript_of(parts, transcripts) is not None
    if 2 * with_transcript <= clips:
        return Detection.miss(f"{with_transcript} of {clips} clips have a transcript")
    return Detection.match(f"{with_transcript} clips with transcripts of the same names")


def read(inputs: LayoutInputs) -> InputTable:
    """Pair clips and transcripts; a clip without a transcript is a reject."""
    transcripts = _transcripts(inputs)
    clips = [
        (parts, file)
        for parts, file in inputs.below_root()
        if kind_of_name(parts[-1]) == "audio" and len(parts) > 1 and not is_clutter(parts)
    ]
    if not clips:
        refuse_layout(inputs, "speakers", "clips in folders of speakers")
    speaker_at = _speaker_level([parts for parts, _ in clips])
    folders = sorted({"/".join(parts[:-1]) for parts, _ in clips})
    splits = splits_of_paths(folders, unit="folder")
    path_of = {file.path: _transcript_of(parts, transcripts) for parts, file in clips}
    used = sorted({path for path in path_of.values() if path is not None})
    texts = {
        path: _texts_of(path, data) for path, data in zip(used, inputs.read_many(used), strict=True)
    }
    entries, excluded = [], list[ExcludedInput]()
    for parts, file in clips:
        split = inputs.split or splits["/".join(parts[:-1])]
        path, stem = path_of[file.path], _key(parts)[1]
        by_stem, problem = _NO_TRANSCRIPT if path is None else texts[path]
        text = by_stem.get(stem, by_stem.get(""))
        if file.problem is not None:
            excluded.append(ExcludedInput(file.path, split, *file.problem))
        elif text is None:
            excluded.append(ExcludedInput(file.path, split, *problem))
        else:
            values = (text, parts[speaker_at])
            entries.append(Entry(file.path, split, (Blob(file.path, file.size),), values))
    columns = (Column("text", "string"), Column("speaker", "string"))
    return InputTable.of(entries, excluded, columns, (BlobColumn("audio", "audio"),))


def _texts_of(path: str, data: bytes | OSError) -> _Texts:
    if isinstance(data, OSError):
        return {}, ("NO_ANNOTATION", f"{path}: {data.strerror or data}")
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        return {}, ("NOT_UTF8", f"{path}: {error}")
    if not path.endswith(f"{_OF_FOLDER}.txt"):
        return {"": text}, ("NO_ANNOTATION", path)
    lines = (line.strip().partition(" ") for line in text.splitlines())
    return {stem: words.strip() for stem, _, words in lines}, ("NO_ANNOTATION", f"not in {path}")


def _speaker_level(clips: list[tuple[str, ...]]) -> int:
    """Return the index of the speaker's folder in a path: the first that differs between clips.

    Split folders do not count, and folders below the speakers, such as chapters, come later.
    """
    depth = min(len(parts) for parts in clips) - 1
    for level in range(depth):
        names = collections.Counter(parts[level] for parts in clips)
        if len(names) > 1 and not any(map(split_of_name, names)):
            return level
    return depth - 1


register(
    Layout(
        name="speakers",
        kinds=("audio",),
        rank=45,
        tree="""\
wav48/p225/p225_001.wav
txt/p225/p225_001.txt
or 84/121123/84-121123-0000.flac, 84-121123.trans.txt""",
        features="text, speaker",
        splits="the top folders, if they are named after splits; group_by='speaker'",
        refused="",
        detect=detect,
        read=read,
        known=("*.txt", "*.TXT", "*.trans.tsv", "*.book.tsv", "README*", "LICENSE*"),
    )
)
