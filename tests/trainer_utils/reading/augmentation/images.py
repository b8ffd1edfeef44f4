"""Real pixels to change, of all kinds."""

import numpy as np
from sklearn.datasets import load_sample_images

CHINA, FLOWER = load_sample_images().images
IMAGES = {
    "photo": CHINA[50:150, 200:331],
    "dull": CHINA[300:380, 200:290] // 3 + 40,
    "grey": FLOWER[100:190, 250:330, 1:2],
    "black": np.zeros((12, 9, 3), np.uint8),
    "flat": np.full((12, 9, 3), (0, 255, 77), np.uint8),
    "dot": CHINA[:1, :1],
    "line": CHINA[200:201, :40],
}
"""Images by name, `(height, width, channels) uint8`."""
