"""Test that copies of images and texts are found, against Pillow and Jaccard's index."""

import itertools
import random

import numpy as np
import pytest
from PIL import Image, ImageStat

from components.auditing.similarity import (
    IMAGE_SKETCH,
    MIN_JACCARD,
    TextSketches,
    group_similar_images,
    look_at_image,
    look_at_pixels,
    sketch_texts,
    split_words,
)
from tests.components.auditing.pictures import copies_of, cut_tiles, jpeg, png
from tests.components.auditing.prose import altered, paragraphs
from tests.make import encode


@pytest.mark.parametrize("made", [jpeg, png])
def test_brightness_and_size_equal_pillows(made):
    image = cut_tiles(213)[2].resize((500, 375))
    look = look_at_image(made(image))
    assert (look.height, look.width) == (375, 500)
    assert look.brightness == pytest.approx(ImageStat.Stat(image.convert("L")).mean[0], abs=2)
    whole = image.convert("L").resize((32, 32), Image.Resampling.BOX)
    (sketch,) = np.frombuffer(look.sketch, IMAGE_SKETCH)
    assert np.abs(sketch["thumbnail"] - np.asarray(whole, int)).mean() < 3


def test_pixels_give_the_same_look_as_their_file():
    image = cut_tiles(213)[2]
    assert look_at_pixels(np.asarray(image)) == look_at_image(png(image))


def test_every_image_mode_has_a_look_and_other_data_has_not(subtests):
    for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "I;16"):
        with subtests.test(mode=mode):
            image = Image.new("L", (10, 300), 0).convert("RGB" if mode == "CMYK" else "L")
            assert look_at_image(encode(image.convert(mode), "TIFF")).height == 300
    for data in (b"", b"no image", b"\xff\xd8\xff\xe0", png(Image.new("L", (9, 9)))[:40]):
        with subtests.test(data=data):
            assert look_at_image(data) is None


def groups_of(images: list[bytes]) -> list[int]:
    return group_similar_images(b"".join(look_at_image(data).sketch for data in images)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("side", [213, 107])
def test_copies_of_images_are_found_and_no_others(side):
    images, owners = [], []
    tiles = [tile for tile in cut_tiles(side) if look_at_image(jpeg(tile)).contrast > 12]  # no sky
    for owner, tile in enumerate(tiles):
        made = [jpeg(tile), *(data for _, data in copies_of(tile))]
        images += made
        owners += [owner] * len(made)
    groups = groups_of(images)
    first = {owner: owners.index(owner) for owner in owners}
    found = [groups[n] == groups[first[owner]] for n, owner in enumerate(owners)]
    planted = [n for n, owner in enumerate(owners) if n != first[owner]]
    assert sum(found[n] for n in planted) >= 0.99 * len(planted)
    pairs = list(itertools.combinations(sorted(set(owners)), 2))
    false = [pair for pair in pairs if groups[first[pair[0]]] == groups[first[pair[1]]]]
    assert len(false) <= 0.001 * len(pairs)


def test_16_bit_images_of_low_values_are_compared():
    tiles = cut_tiles(213)[6:9]
    deep = [Image.fromarray(np.asarray(tile.convert("L"), np.uint16) * 16) for tile in tiles]
    images = [encode(image, "PNG") for image in (*deep, *deep)]
    assert groups_of(images) == [0, 1, 2, 0, 1, 2]


def test_groups_do_not_depend_on_the_order_of_images():
    random = np.random.default_rng(0)
    tiles = cut_tiles(213)[6:]
    images = [data for tile in tiles for _, data in copies_of(tile)]
    order = random.permutation(len(images))
    straight = groups_of(images)
    shuffled = groups_of([images[n] for n in order])
    for (one, a), (other, b) in itertools.combinations(enumerate(order.tolist()), 2):
        assert (shuffled[one] == shuffled[other]) == (straight[a] == straight[b])


def groups_of_texts(texts: list[str]) -> list[int]:
    with TextSketches() as sketches:
        for start in range(0, len(texts), 700):
            words = map(split_words, texts[start : start + 700])
            sketches.add(sketch_texts([*words]))
        return sketches.groups().tolist()


def true_groups(texts: list[str]) -> list[int]:
    """Return for each text the first text that it is connected to by Jaccard's index."""
    members = []
    for text in texts:
        words = split_words(text)
        members.append({*words, *itertools.pairwise(words)})
    groups = list(range(len(texts)))
    for one, other in itertools.combinations(range(len(texts)), 2):
        few, many = sorted((members[one], members[other]), key=len)
        if len(few) < MIN_JACCARD * len(many):
            continue
        if len(few & many) >= MIN_JACCARD * len(few | many):
            first, second = sorted((groups[one], groups[other]))
            groups = [first if group == second else group for group in groups]
    return groups


@pytest.mark.parametrize("share", [0.0, 0.08])
def test_texts_with_a_few_changed_words_are_found(share):
    rng = random.Random(0)
    own = paragraphs(500)
    texts = [*own, *(altered(text, share, rng) for text in own)]
    found, truth = groups_of_texts(texts), true_groups(texts)
    planted = [n for n in range(500) if truth[n] == truth[n + 500]]
    assert len(planted) > 470
    assert sum(found[n] == found[n + 500] for n in planted) >= 0.99 * len(planted)
    assert all(truth[n] == truth[found[n]] for n in range(1000))


def test_many_texts_of_one_template_are_grouped_correctly():
    numbers = [f"invoice {n} of customer {n * 7919} over {n * 31} pounds" for n in range(2000)]
    kept = " ".join(f"k{n}" for n in range(40))
    groups = groups_of_texts([*numbers, *(f"{kept} and {n}" for n in range(2000)), "x", "X!", "y"])
    assert len({*groups[2000:4000]}) == 1
    assert groups[4000] == groups[4001] != groups[4002]
    assert len({*groups[:2000]}) == 2000


def test_texts_without_words_are_not_similar():
    assert groups_of_texts(["…", "!", "", "…"]) == [0, 1, 2, 3]


STRANGE = ["Ünïcode STRASSE straße ﬁne", "\ud800 b \x00c", "x" * 70_000, "😀 smile", "a_b c-d e.f"]


def test_sketch_does_not_depend_on_the_other_texts():
    words = [split_words(text) for text in (*paragraphs(50), "", *STRANGE)]
    together = sketch_texts(words)
    alone = [sketch_texts([some]) for some in words]
    assert together.keys.tolist() == [one.keys[0].tolist() for one in alone]
    assert together.members.tolist() == [n for one in alone for n in one.members.tolist()]


def test_characters_of_scripts_without_spaces_are_words(subtests):
    for text, words in (
        ("The CAT, sat!", ["the", "cat", "sat"]),
        ("Straße ﬁn", ["strasse", "fin"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("、。", []),
    ):
        with subtests.test(text=text):
            assert split_words(text) == words
