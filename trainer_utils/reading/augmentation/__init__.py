"""Augmentation of images: chains of operations, each image's own by the key of its record.

chain = Augmentation.of(["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)])
chain.crops, chain.flips        # True, True: the decoder's part
chain.pixels, chain.mixing      # what is done to decoded pixels, and to rows of a batch
"""
