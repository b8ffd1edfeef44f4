"""Choose the steps whose records to read ahead, each once.

window = StepWindow(rows_of_step=64)
window.coming(0, 0, distance=1, rows_ahead=256)          # range(0, 9)
window.coming(1, 1, distance=1, rows_ahead=256)          # range(9, 10)
"""

_MIN_STEPS = 8  # steps between reading ahead and use


class StepWindow:
    """The steps to read ahead while the steps of an input are made in order.

    Args:
        rows_of_step: the number of rows of a step.
    """

    def __init__(self, *, rows_of_step: int) -> None:
        self._rows_of_step = max(rows_of_step, 1)
        self._next = 0

    def coming(self, first: int, last: int, *, distance: int, rows_ahead: int) -> range:
        """Return the steps to request now, counted over all epochs.

        Threads may call this out of order by a few steps: the state is one number, and a step that
        is requested twice or never is only slower.

        Args:
            first: the first step that is made now.
            last: the last step that is made now.
            distance: the distance between steps of this process.
            rows_ahead: the number of rows to have requested at any time, from the first step on.
                0: request only the step that follows some steps later.
        """
        ahead = max(_MIN_STEPS, -(-rows_ahead // self._rows_of_step)) * distance
        if not rows_ahead:
            return range(first + ahead, last + ahead + 1, distance)
        is_next = first < self._next <= last + 2 * ahead and (self._next - first) % distance == 0
        begin = self._next if is_next else first
        self._next = max(begin, last + ahead + distance)
        return range(begin, last + ahead + 1, distance)
