"""Rounds of merging: the keys of any number of files are counted with tasks that hold few of them and open few files.

Merging each range of keys over all files at once would open files × ranges. In rounds, the number grows as n log n:
each task reads one range of keys from a group of neighbouring files and writes one file, so that every round has
fewer files for each range, and more ranges, until each range is one file.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The bytes that a task reads and the files that it opens, at most.
TASK_BYTES, FAN = 1 << 27, 256
#: The smallest number of ranges in the last round, so that many workers share it, and the smallest size of a range.
_RANGES, _RANGE_BYTES = 16, 1 << 20
#: The smallest number of files for which it pays to join whole files before their ranges are split.
_LEAST_FAN = 4


@dataclass(frozen=True)
class MergeRound:
    """A round of merging, with a task for each group of files and each range.

    Attributes:
        n_files: the number of files of each range before the round.
        n_ranges: the number of ranges before the round.
        fan: the number of files of a group.
        split: the number of ranges into which the round cuts each range.
    """

    n_files: int
    n_ranges: int
    fan: int
    split: int

    @property
    def n_groups(self) -> int:
        """The number of files of each range after the round."""
        return -(-self.n_files // self.fan)

    @property
    def n_tasks(self) -> int:
        """The number of tasks, each of which writes a file."""
        return self.n_groups * self.n_ranges * self.split

    def inputs(self, task: int) -> tuple[int, int, list[int]]:
        """Return the range that a task reads, the number of ranges, and the numbers of the files that it opens."""
        n_ranges = self.n_ranges * self.split
        group, number = divmod(task, n_ranges)
        files = range(group * self.fan, min(self.n_files, (group + 1) * self.fan))
        return number, n_ranges, [file * self.n_ranges + number // self.split for file in files]


def plan_rounds(n_files: int, n_bytes: int) -> tuple[MergeRound, ...]:
    """Plan the rounds by which files become one file for each range.

    Args:
        n_files: how many files there are, each with keys of all ranges.
        n_bytes: how many bytes all of them have.
    """
    rounds: list[MergeRound] = []
    n_ranges = 1
    fan = min(FAN, TASK_BYTES * n_files // max(1, n_bytes))
    if n_files > FAN and fan >= _LEAST_FAN:
        rounds.append(MergeRound(n_files, 1, fan, 1))
        n_files = rounds[-1].n_groups
    while n_files > FAN:
        rounds.append(MergeRound(n_files, n_ranges, FAN, FAN))
        n_files, n_ranges = rounds[-1].n_groups, n_ranges * FAN
    n_needed = max(n_bytes // TASK_BYTES, min(_RANGES, n_bytes // _RANGE_BYTES)) // n_ranges
    rounds.append(MergeRound(n_files, n_ranges, n_files, 1 << n_needed.bit_length()))
    return tuple(rounds)
