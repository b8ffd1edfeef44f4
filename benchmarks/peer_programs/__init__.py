"""The programs that `benchmarks/peers.py` compares, one file each, set up as its own docs advise.

A module has `TITLE`, `SETUP` (Markdown: how it is used), `DISTRIBUTIONS` (packages whose versions
are shown) and any of these functions; a missing one is shown as a dash:

    convert_photos(photos, target)   # a folder of classes to the program's files
    convert_texts(table, target)     # a CSV file of `text,label` to the program's files
    photo_reader(uri)                # a `Reader` of batches of 64 photos of 224 x 224
    text_reader(uri)                 # a `Reader` of batches of 256 texts
    remote_photo_reader(uri, cache)  # the same photos from a bucket, with an empty folder

`READS` names the program whose files a module reads, or is `RAW` for the folder of photos.
"""
