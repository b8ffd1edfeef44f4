"""What a conversion published."""

import os

from trainer_utils.format import Manifest


def manifest_of(uri):
    return Manifest.from_json(open(os.path.join(uri, "manifest.json")).read(), path=uri)
