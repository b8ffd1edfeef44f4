"""Human-written texts: the paragraphs of Python's own manual, as shown by `help()`."""

import functools
import random
import re
from pydoc_data.topics import topics

_WORD = re.compile(r"[A-Za-z]{2,}")


@functools.cache
def _all() -> list[str]:
    found = re.split(r"\n\s*\n", "\n\n".join(topics[name] for name in sorted(topics)))
    plain = dict.fromkeys(" ".join(paragraph.split()) for paragraph in found)
    return [text for text in plain if 12 <= len(_WORD.findall(text)) <= 400]


def paragraphs(count: int) -> list[str]:
    """Return `count` different paragraphs in random order."""
    return random.Random(7).sample(_all(), count)


def altered(text: str, share: float, rng: random.Random) -> str:
    """Return the text with a share of its words, at least one, removed, doubled or replaced."""
    words = text.split()
    for place in sorted(rng.sample(range(len(words)), max(1, int(len(words) * share))))[::-1]:
        words[place : place + 1] = rng.choice([[], [words[place]] * 2, [f"w{rng.random()}"[:8]]])
    changed = " ".join(words)
    return rng.choice([changed, changed.upper(), changed.replace(",", " -"), f"\n{changed} !"])
