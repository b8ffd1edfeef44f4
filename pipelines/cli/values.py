"""Kinds of values that options take.

Bytes().convert("128MiB", None, None)       # 134217728
Size().convert("224x224", None, None)       # (224, 224)
parse_json_or_text("columns={\"age\": \"float\"}")      # ('columns', {'age': 'float'})
"""

import csv
import json
import re

import click

from trainer_utils.format.json_text import Json

__all__ = ["Bytes", "Choices", "Counts", "Names", "Pair", "Size", "parse_json_or_text"]

_UNITS = {
    **{"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9},
    **{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30},
    **{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30},
}


class Bytes(click.ParamType):
    """A number of bytes, at least 1: `134217728`, `128MiB`, `128MB`."""

    name = "bytes"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
        if not match or match[2] not in _UNITS:
            self.fail(f"expected bytes such as 134217728 or 128MiB, got {value!r}", param, ctx)
        number = int(float(match[1]) * _UNITS[match[2]])
        if number < 1:
            self.fail(f"expected at least 1 byte, got {value!r}", param, ctx)
        return number


class Choices(click.Choice[str]):
    """One of some words, for the help and the shell's completion: others are for who takes them."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The word as it is."""
        return str(value)


class Names(click.ParamType):
    """A list of texts, `text,label`; one with a comma in it in quotes, as in a CSV."""

    name = "NAME,…"

    def convert(
        self, value: str | list[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        """The texts."""
        if isinstance(value, list):
            return value
        return [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]


class Pair(click.ParamType):
    """A column and its kind: `stars=float`."""

    name = "NAME=KIND"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Both texts."""
        if isinstance(value, tuple):
            return value
        name, found, kind = value.rpartition("=")
        if not found or not name:
            self.fail(f"expected NAME=KIND, got {value!r}", param, ctx)
        return name, kind


class Size(click.ParamType):
    """Height and width in pixels: `224` or `224x256`."""

    name = "HxW"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Both numbers."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d+)(?:x(\d+))?", value.strip().lower())
        if not match or not int(match[1]) or not int(match[2] or match[1]):
            self.fail(f"expected a size such as 224 or 224x224, got {value!r}", param, ctx)
        return int(match[1]), int(match[2] or match[1])


class Counts(click.ParamType):
    """Numbers by split, such as `train=8,eval=2`; a number alone where `bare` allows it."""

    name = "counts"

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """A dict, or the number alone."""
        if not isinstance(value, str):
            return value
        if self._bare and value.strip().isdecimal():
            return int(value)
        counts: dict[str, int] = {}
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part, re.ASCII)
            if match is None or match[1] in counts:
                alone = "8 or " if self._bare else ""
                self.fail(f"expected {alone}train=8,eval=2, got {value!r}", param, ctx)
            counts[match[1]] = int(match[2])
        return counts


def parse_json_or_text(setting: str) -> tuple[str, Json]:
    """Name and value of `NAME=VALUE`; a value that is JSON is what it says, else a text."""
    name, found, value = setting.partition("=")
    if not found or not name.isidentifier():
        raise click.BadParameter(f"expected NAME=VALUE, got {setting!r}", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
