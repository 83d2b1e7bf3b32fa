"""What it costs to go back to a snapshot and what it costs to read again, in seconds learned from doing both."""

# What is assumed before anything was measured: a slow machine's memory, a slow disk.
_COPY_S_PER_BYTE = 1 / 4e9
_FILE_S_PER_BYTE = 1 / 0.5e9
_LEARN_BYTES = 1 << 20  # smaller copies say more about the calls around them
_MIN_TOKENS = 16  # fewer are read before a snapshot is found
# Running sequences look past the cells of idle ones in every layer. Measured with SmolLM2-135M Q4_1 on two threads:
# three idle chats of 1,250 tokens take 1.5 ms of a step of 8.7 ms.
_IDLE_CELL_S = 4e-7
_MIN_IDLE_CELLS = 256
_EXPECTED_REPLY_TOKENS = 128
_CHANCE = 2.0  # between two steps of one machine; what differs more is not averaged with


def followed_rate(known_s: float | None, measured_s: float) -> float | None:
    """Return what reading a token takes, after one more step has shown it.

    A slow step may be chance: the first one after a load waits for the weights to come from the disk, and any for what
    else the computer does. So one step raises it by half at most, and a fast one brings it down to half above itself.
    """
    if known_s is None or measured_s <= 0:
        return known_s if measured_s <= 0 else measured_s
    return (min(known_s, _CHANCE * measured_s) + min(measured_s, _CHANCE * known_s)) / 2


class ReuseCost:
    """Learned rates of one model on this machine.

    Attributes:
        prefill_s_per_token: None until a prompt was read.
    """

    def __init__(self) -> None:
        self.prefill_s_per_token: float | None = None
        self._copy_s_per_byte = _COPY_S_PER_BYTE
        self._file_s_per_byte = _FILE_S_PER_BYTE

    def note_copy(self, num_bytes: int, seconds: float) -> None:
        """Learn from a state that was copied into the context or out of it."""
        if num_bytes >= _LEARN_BYTES:
            self._copy_s_per_byte = (self._copy_s_per_byte + seconds / num_bytes) / 2

    def note_file(self, num_bytes: int, seconds: float) -> None:
        """Learn from a file that was read and checked."""
        if num_bytes >= _LEARN_BYTES:
            self._file_s_per_byte = (self._file_s_per_byte + seconds / num_bytes) / 2

    def restore_s(self, num_bytes: int, *, is_in_file: bool = False) -> float:
        """Return what going back to a snapshot takes."""
        return num_bytes * (self._copy_s_per_byte + (self._file_s_per_byte if is_in_file else 0.0))

    def pays(self, num_bytes: int, num_tokens: int, *, is_in_file: bool = False) -> bool:
        """Whether going back to a snapshot is faster than reading so many tokens."""
        if num_tokens < _MIN_TOKENS:
            return False
        if self.prefill_s_per_token is None:
            return True
        return self.restore_s(num_bytes, is_in_file=is_in_file) < num_tokens * self.prefill_s_per_token

    def leaving_pays(self, num_cells: int, num_bytes: int, num_tokens: int, max_tokens: int | None) -> bool:
        """Whether an idle slot had better leave the context while another sequence runs, and come back later.

        Args:
            num_cells: that it alone holds.
            num_bytes: to be copied out, and back in.
            num_tokens, max_tokens: that the other sequence has to read, and may generate.
        """
        expected = num_tokens + min(max_tokens or _EXPECTED_REPLY_TOKENS, _EXPECTED_REPLY_TOKENS)
        gain = num_cells * expected * _IDLE_CELL_S
        return num_cells >= _MIN_IDLE_CELLS and gain > 2 * num_bytes * self._copy_s_per_byte

    def saved_s(self, num_tokens: int, cost_s: float) -> float | None:
        """Return the seconds that reused tokens have saved, None where it is not known."""
        if self.prefill_s_per_token is None:
            return None
        return max(num_tokens * self.prefill_s_per_token - cost_s, 0.0)
