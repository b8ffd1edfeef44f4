"""Find which bytes of a CSV are inside quotes, at the speed of numpy.

A quote opens a field only at the beginning of the field. Elsewhere in an unquoted field it is an
ordinary character. Inside quotes, a doubled quote is a character, and a single one closes the
field. So each quote changes a state of three values, and how it does so depends only on the byte
before it. The states after all quotes of a block are computed together:

    block = QuoteTracker(b",").read(b'a,"b\\nc"\\n')
    block.row_ends()  # array([8])

Nearly all tables have no ordinary quotes. Then quotes open and close in turns, which is checked
first. Otherwise the changes of state are composed in parallel, like a prefix sum.
"""

import dataclasses
import itertools

import numpy as np
import numpy.typing as npt

Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_QUOTE, _LINE_FEED, _RETURN = 0x22, 0x0A, 0x0D
_SPACES = b" \t"
# States after a quote, and at the beginning of the data.
_OUTSIDE = 0  # an ordinary character of an unquoted field, or no quote yet
_INSIDE = 1  # the quote opened a field, or is the second of a doubled quote
_CLOSED = 2  # the quote closed the field, or is the first of a doubled quote
# A change of state is a function of three values, as a number of three digits of base 3: the new
# state for each old one.
_ORDINARY_QUOTE = 0 + 3 * _CLOSED + 9 * 0  # text before it
_SECOND_QUOTE = 0 + 3 * _CLOSED + 9 * _INSIDE  # another quote before it
_FIRST_OF_FIELD = _INSIDE + 3 * _CLOSED + 9 * _INSIDE  # a delimiter or line end before it
_NO_QUOTE = 0 + 3 * 1 + 9 * 2  # keeps the state
_DIGITS = np.array([[n % 3, n // 3 % 3, n // 9] for n in range(27)], np.uint8)
# The change by `first` and then by `second`, at 27 * first + second.
_COMPOSED = (_DIGITS[:, _DIGITS] @ np.array([1, 3, 9])).T.ravel().astype(np.uint8)
_STEPS, _SEARCH_BYTES = 32, 1 << 12  # limits of vectorised steps over spaces
_TRIES = 8  # line feeds that are tried before all are examined


class BadQuote(Exception):
    """A quote that breaks the rules of CSV.

    Either a quoted field is never closed; its row begins at `offset`. Or text follows a closing
    quote at `offset` (`is_stray`). Lenient CSV readers would drop such quotes, or read the rows up
    to the next quote as a part of the field.
    """

    def __init__(self, offset: int, *, is_stray: bool) -> None:
        super().__init__(f"byte {offset}")
        self.offset, self.is_stray = offset, is_stray


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a table, with the state after each of its quotes."""

    data: bytes
    quotes: Offsets  # places of the quotes, `(quotes,)`
    states: Octets  # the state after each quote, `(quotes,)`
    first_state: int  # the state at the beginning

    @property
    def octets(self) -> Octets:
        """The bytes, `(n,)`, without a copy."""
        return np.frombuffer(self.data, np.uint8)

    def row_ends(self) -> Offsets:
        """Return the offsets after all line feeds outside quotes, `(ends,)`."""
        ends = np.flatnonzero(self.octets == _LINE_FEED) + 1
        if not len(self.quotes):
            return ends[:0] if self.first_state == _INSIDE else ends
        states = np.append(self.states, np.uint8(self.first_state))  # -1: before the first quote
        outside: Offsets = ends[states[np.searchsorted(self.quotes, ends) - 1] != _INSIDE]
        return outside

    def last_row_end(self) -> int | None:
        """Return the offset after the last line feed outside quotes, or None."""
        stop = len(self.data)
        for _ in range(_TRIES):
            if not (end := self.data.rfind(b"\n", 0, stop) + 1):
                return None
            before = int(np.searchsorted(self.quotes, end))
            if (self.states[before - 1] if before else self.first_state) != _INSIDE:
                return end
            stop = int(self.quotes[before - 1]) if before else 0
        ends = self.row_ends()
        return int(ends[-1]) if len(ends) else None


class QuoteTracker:
    """The state of quotes over consecutive blocks of a table.

    Args:
        delimiter: the byte between fields. None: quotes are ordinary characters.
        is_inside: whether the first block begins inside quotes, after a line feed.
        start: the offset of the first block in its file.
        refuses_stray: whether text after a closing quote is an error.
    """

    def __init__(
        self,
        delimiter: bytes | None,
        *,
        is_inside: bool = False,
        start: int = 0,
        refuses_stray: bool = True,
    ) -> None:
        self._delimiter, self._refuses_stray = delimiter, refuses_stray
        self._state = _INSIDE if is_inside else _OUTSIDE
        self._previous = _LINE_FEED  # the byte before the next block
        self._offset = start  # of the next block
        # Offset of a closing quote that is followed by nothing but spaces so far.
        self._unconfirmed: int | None = None
        ends = [_LINE_FEED, _RETURN, *(delimiter or b"")]
        self._is_field_end = np.zeros(256, np.bool_)
        self._is_field_end[ends] = True
        self._may_adjoin = self._is_field_end.copy()  # both before and after a regular quote
        self._may_adjoin[_QUOTE] = True
        self._is_space = np.zeros(256, np.bool_)
        self._is_space[[space for space in _SPACES if space not in ends]] = True

    @property
    def is_inside(self) -> bool:
        """Whether the next block begins inside quotes."""
        return self._state == _INSIDE

    def read(self, data: bytes, quotes: Offsets | None = None) -> Block:
        """Return the next block with its quotes.

        Args:
            data: the bytes of the block.
            quotes: the places of all quotes in it, if they are known.

        Raises:
            BadQuote: text follows a closing quote.
        """
        first_state = self._state
        if self._delimiter is None or not data:
            return Block(data, np.zeros(0, np.int64), np.zeros(0, np.uint8), first_state)
        octets = np.frombuffer(data, np.uint8)
        quotes = find_quotes(data) if quotes is None else quotes
        if self._refuses_stray:
            self._confirm(octets)
        states = self._states_of_regular(octets, quotes)
        if states is not None:
            closing = quotes[int(first_state != _INSIDE) :: 2]
        else:
            states = self._states_of_any(octets, quotes)
            closing = quotes[states == _CLOSED]
        if self._refuses_stray:
            self._check_closing(octets, closing)
        if len(quotes):
            self._state = int(states[-1])
        self._previous, self._offset = int(octets[-1]), self._offset + len(data)
        return Block(data, quotes, states, first_state)

    def _before(self, octets: Octets, quotes: Offsets) -> Octets:
        """Return the byte before each quote."""
        before: Octets = octets[quotes - 1]
        if len(quotes) and not quotes[0]:
            before[0] = self._previous
        return before

    def _states_of_regular(self, octets: Octets, quotes: Offsets) -> Octets | None:
        """Return the states if quotes open and close in turns, or None if there are other quotes.

        The second of a doubled quote counts as opening the field again.
        """
        is_inside = self._state == _INSIDE
        before = self._before(octets, quotes[int(is_inside) :: 2])
        if not self._may_adjoin[before].all():
            return None
        if len(before) and before[0] == _QUOTE and self._state == _OUTSIDE:
            return None  # the quote before it, in an earlier block, was an ordinary character
        states = np.empty(len(quotes), np.uint8)
        states[int(is_inside) :: 2] = _INSIDE
        states[int(not is_inside) :: 2] = _CLOSED
        return states

    def _states_of_any(self, octets: Octets, quotes: Offsets) -> Octets:
        """Return the states after all quotes. Some of them are ordinary characters."""
        before = self._before(octets, quotes)
        changes = np.full(len(quotes), _ORDINARY_QUOTE, np.uint8)
        changes[self._is_field_end[before]] = _FIRST_OF_FIELD
        changes[before == _QUOTE] = _SECOND_QUOTE
        width = int(np.ceil(np.sqrt(len(quotes))))
        padding = np.full(-len(quotes) % width, _NO_QUOTE, np.uint8)
        # Column j has the j-th change of each run of `width` changes, and then all up to it.
        columns = np.concatenate([changes, padding]).reshape(-1, width).T.astype(np.int64)
        for earlier, column in itertools.pairwise(columns):
            column[:] = _COMPOSED[earlier * 27 + column]
        first_states = np.empty(columns.shape[1], np.int64)
        state = self._state
        for run, change in enumerate(columns[-1].tolist()):
            first_states[run], state = state, _DIGITS[change, state]
        states: Octets = _DIGITS[columns, first_states].T.ravel()[: len(quotes)]
        return states

    def _check_closing(self, octets: Octets, closing: Offsets) -> None:
        """Raise BadQuote if text follows a closing quote."""
        if len(closing) and closing[-1] == len(octets) - 1:
            self._unconfirmed = self._offset + int(closing[-1])
            closing = closing[:-1]
        closing = closing[~self._may_adjoin[octets[closing + 1]]]
        strays = []
        places = closing + 1
        for _ in range(_STEPS):  # over one space after each of the quotes
            after = octets[places]
            strays += closing[~(self._is_space[after] | self._is_field_end[after])][:1].tolist()
            closing, places = self._after_space(closing, places, octets)
            if not len(closing):
                break
        strays += [quote for quote in closing.tolist() if self._is_stray(octets, quote)]
        if strays:
            raise BadQuote(self._offset + min(strays), is_stray=True)

    def _after_space(
        self, closing: Offsets, places: Offsets, octets: Octets
    ) -> tuple[Offsets, Offsets]:
        """Return the quotes that have a space at their place, and the places after it."""
        is_space = self._is_space[octets[places]]
        closing, places = closing[is_space], places[is_space] + 1
        if len(places) and places[-1] == len(octets):
            self._unconfirmed = self._offset + int(closing[-1])
            closing, places = closing[:-1], places[:-1]
        return closing, places

    def _is_stray(self, octets: Octets, quote: int) -> bool:
        """Return whether text follows a closing quote and any number of spaces."""
        place = self._next_other(octets, quote + 1)
        if place == len(octets):
            self._unconfirmed = self._offset + quote
            return False
        return not self._is_field_end[octets[place]]

    def _confirm(self, octets: Octets) -> None:
        """Check the byte that follows the closing quote at the end of an earlier block."""
        if self._unconfirmed is None:
            return
        place = self._next_other(octets, 0)
        if place == len(octets):
            return  # nothing but spaces, again
        is_doubled = self._previous == _QUOTE and octets[0] == _QUOTE
        if not is_doubled and not self._is_field_end[octets[place]]:
            raise BadQuote(self._unconfirmed, is_stray=True)
        self._unconfirmed = None

    def _next_other(self, octets: Octets, start: int) -> int:
        """Return the place of the first byte from `start` that is not a space, or the end."""
        while start < len(octets):
            others = np.flatnonzero(~self._is_space[octets[start : start + _SEARCH_BYTES]])
            if len(others):
                return start + int(others[0])
            start += _SEARCH_BYTES
        return len(octets)


def find_quotes(data: bytes) -> Offsets:
    """Return the places of all quotes, `(quotes,)`."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
