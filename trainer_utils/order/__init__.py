"""The order of records: compute which worker reads which record at which step, with numpy alone.

    order = InputOrder([FileRange("a.tfrecord", skip=0, take=1000)],
                       OrderOptions(batch_size=64, shuffle="global", seed=7), num_workers=4)
    order.records(epoch=2, step=10, worker=3)

docs/order.md is the specification.
"""

from trainer_utils.format.slices import FileRange, RecordName
from trainer_utils.order.batch_layout import BatchLayout
from trainer_utils.order.input_order import InputOrder
from trainer_utils.order.mixing import MixPart, WeightSchedule
from trainer_utils.order.order_options import OrderOptions
from trainer_utils.order.resume_token import InputState
