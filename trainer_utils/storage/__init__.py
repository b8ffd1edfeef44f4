"""Where bytes lie: local files and object stores behind one protocol.

    from trainer_utils.storage import join, read_bytes

Local paths are opened by the operating system, every other scheme through fsspec.
"""
