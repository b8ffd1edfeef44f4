"""Texts that people wrote: the paragraphs of what installed packages say of themselves."""

import functools
import importlib.metadata
import random
import re

_WORDS = re.compile(r"[A-Za-z]{2,}")


@functools.cache
def _all() -> tuple[str, ...]:
    found: dict[str, None] = {}
    for package in sorted(importlib.metadata.distributions(), key=lambda one: one.metadata["Name"]):
        text = package.read_text("METADATA") or ""
        for paragraph in re.split(r"\n\s*\n", text):
            if 12 <= len(_WORDS.findall(paragraph)) <= 400:
                found[" ".join(paragraph.split())] = None
    return tuple(found)


def paragraphs(count: int) -> list[str]:
    """So many different ones, in an order that does not follow their packages."""
    return random.Random(7).sample(_all(), count)


def altered(text: str, share: float, rng: random.Random) -> str:
    """A text of which a share of the words, at least one, is gone, doubled or another one."""
    words = text.split()
    for place in sorted(rng.sample(range(len(words)), max(1, int(len(words) * share))))[::-1]:
        words[place : place + 1] = rng.choice([[], [words[place]] * 2, [f"w{rng.random()}"[:8]]])
    changed = " ".join(words)
    return rng.choice([changed, changed.upper(), changed.replace(",", " -"), f"\n{changed} !"])
