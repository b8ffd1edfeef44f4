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
            words = paragraph.split()
            if _is_prose(words):
                found[" ".join(words)] = None
    return tuple(found)


def _is_prose(words: list[str]) -> bool:
    """Whether it is of words, none of which, such as an address, is an eighth of it or more."""
    is_worded = len(words) >= 12 and 12 <= sum(len(_WORDS.findall(word)) for word in words) <= 400
    return is_worded and 8 * max(map(len, words)) < sum(map(len, words))


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
