"""Arrange the settings of `convert` for its help, in the words of the command line.

    sections = in_sections(merge_kinds({"Images": ImageSettings.described(), …}))
    sections["Texts"]["tokenizer"]      # Setting(…)
    text_for_flags("Default: target_shard_bytes.")      # 'Default: --target-shard-bytes.'
    first_sentence("A column, such as a patient's id: rows with equal values …")

`SECTIONS` decides where a setting is shown, and whether `--help` describes or only names it;
`--help-all` describes every setting in full. A test checks that each setting is in one section.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import NamedTuple

from components.inputs.advice import FLAGS
from trainer_utils.core.settings import Setting

__all__ = ["SECTIONS", "first_sentence", "in_sections", "is_usual", "merge_kinds", "text_for_flags"]


class _Section(NamedTuple):
    usual: tuple[str, ...]  # described by --help
    rare: tuple[str, ...] = ()  # named by --help, described by --help-all


SECTIONS: Mapping[str, _Section] = {
    "Inputs and records": _Section(
        ("layout", "ignore", "exclude", "where", "max_reject_fraction"),
        (
            *("follow_links", "file_roots", "base_dataset", "feature_names"),
            *("relabel", "add", "keep_shards"),
        ),
    ),
    "Splits and shards": _Section(
        ("num_shards", "target_shard_bytes", "group_by", "stratify"),
        (
            "seed",
            "shard_multiple",
            "compression",
            "shuffle",
            "balance",
            "stratify_by",
            "memory_bytes",
        ),
    ),
    "Tables and lists of files": _Section(
        ("columns", "vocabulary", "csv_path"),
        (
            *("column_names", "header", "delimiter", "quoting", "tensors", "rows"),
            *("label_separator", "find_files", "name_pattern", "encoding", "list_encoding"),
        ),
    ),
    "Images": _Section(
        ("resize_shorter_side", "quality", "orientation", "verify", "image_dir"),
        (
            *("frames", "max_pixels", "sixteen_bit", "box_format", "box_frame"),
            *("annotation_dir", "label_dir", "image_set_dir", "label_list"),
        ),
    ),
    "Texts": _Section(
        ("tokenizer", "deduplicate", "min_chars", "max_chars"),
        ("lowercase", "normalize", "keep_text"),
    ),
    "Audio files": _Section(("sample_rate", "channels")),
}
_USUAL = frozenset(name for section in SECTIONS.values() for name in section.usual)
# Sentences for which a shell has a better answer than Python.
_FOR_SHELLS = {
    "layout": "auto, or the name of a layout: `tfx-shards layouts` lists and draws them.",
    "feature_names": "New names for features, by their current names, such as "
    "image=image/encoded. All other settings use the current names.",
}
_MAX_SHORT = 92


def is_usual(name: str) -> bool:
    """Return whether `--help` describes a setting, instead of naming it only."""
    return name in _USUAL


def merge_kinds(kinds: Mapping[str, Mapping[str, Setting]]) -> dict[str, Setting]:
    """Return each setting once; its description says where kinds of input differ.

    Args:
        kinds: the settings by title of the kind, and by name.
    """
    merged: dict[str, Setting] = {}
    for name in dict.fromkeys(name for settings in kinds.values() for name in settings):
        known = {kind: settings[name] for kind, settings in kinds.items() if name in settings}
        first = next(iter(known.values()))
        sentences = {kind: setting.sentence for kind, setting in known.items()}
        if name not in _FOR_SHELLS and len(set(sentences.values())) > 1:
            if len({setting.default for setting in known.values()}) > 1:
                for kind, setting in known.items():
                    sentences[kind] += (
                        f" Default: {setting.shown_default}." if setting.default else ""
                    )
                first = dataclasses.replace(first, default=None)
            text = " ".join(f"{kind}: {sentence}" for kind, sentence in sentences.items())
            first = dataclasses.replace(first, help=text)
        merged[name] = first
    return merged


def in_sections(settings: Mapping[str, Setting]) -> dict[str, Mapping[str, Setting]]:
    """Return settings by section of the help and by name."""
    return {
        title: {name: settings[name] for name in (*section.usual, *section.rare)}
        for title, section in SECTIONS.items()
    }


def text_for_flags(setting: Setting, flag: str) -> str:
    """Return the description of a setting in the words of the command line.

    Names of settings become flags, dictionaries become `NAME=VALUE`, `input_base` becomes SRC, and
    remarks on Kubeflow's functions are left out.

    Args:
        setting: the setting.
        flag: its flag.
    """
    text = _FOR_SHELLS.get(setting.name, setting.sentence).replace("`", "")
    text = re.sub(r" *\((?:by name, )?not in Kubeflow's functions\)", "", text)
    text = re.sub(r"\{['\"].*?\}", _as_pairs, text)
    text = re.sub(r"\binput_base\b", "SRC", text)
    text = re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", _as_flag, text)
    if bool in setting.kinds:
        text = text.removeprefix("True: ")
        text = re.sub(r"\bFalse(:?) ", rf"--no-{flag.removeprefix('--')}\1 ", text)
    values = {"auto", *map(str, setting.choices)}
    if not text.startswith("--") and text.partition(" ")[0].rstrip(":,") not in values:
        text = text[0].upper() + text[1:]
    if setting.default is True:
        return f"{text} Default: {flag}."
    return f"{text} Default: {setting.shown_default}." if setting.default else text


def first_sentence(text: str) -> str:
    """Return the beginning of a description: a sentence, or less of it if that is long."""
    text = re.sub(r"^(?:Images|Texts|Audio files): (\w)", lambda match: match[1].upper(), text)
    sentence = re.split(r"(?<=[^.]\.) (?=[A-Z0-9-])", text, maxsplit=1)[0]
    for end in ("; ", ": ", ", "):
        if len(sentence) <= _MAX_SHORT:
            break
        at = sentence.rfind(end, 12, _MAX_SHORT)
        sentence = f"{sentence[:at]}." if at > 0 else sentence
    return sentence


def _as_pairs(match: "re.Match[str]") -> str:
    return re.sub(r"['\"{} ]", "", match[0]).replace(":", "=")


def _as_flag(match: "re.Match[str]") -> str:
    known = {name for section in SECTIONS.values() for names in section for name in names}
    name = match[0]
    return FLAGS.get(name, f"--{name.replace('_', '-')}") if name in known else name
