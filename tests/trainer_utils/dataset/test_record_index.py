"""Where an index says that records lie."""

import numpy as np

from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.format import RecordIndex


def test_an_index_says_where_records_lie_unless_it_is_of_another_file(tmp_path):
    from trainer_utils.format import frame_records
    from trainer_utils.format.naming import index_file

    name = "Split-train/data_tfrecord-00000-of-00001"
    records = [b"", b"one", b"x" * 300]
    shard, index = tmp_path / name, tmp_path / index_file(name)
    assert indexed_offsets(str(shard), size=355) is None
    index.parent.mkdir(parents=True)
    index.write_bytes(RecordIndex(np.array([0, 3, 300])).to_bytes())
    size = len(frame_records(records))
    assert indexed_offsets(str(shard), size=size).tolist() == [0, 16, 35, size]
    assert indexed_offsets(str(shard), size=size + 1) is None
    index.write_bytes(b"no index")
    assert indexed_offsets(str(shard), size=size) is None
    assert indexed_offsets("elsewhere.tfrecord", size=size) is None
