"""Records to arrays of numpy in the order of `input_fn`, without TensorFlow: `iterate`, PyTorch.

`batches` is the whole way; on it lie `records` (a step's records, read and checked), `examples`
(parsed, all records of a step at once), `images` and `features` (what their values become).
"""
