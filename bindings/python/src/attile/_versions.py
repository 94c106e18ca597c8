# SPDX-License-Identifier: Apache-2.0
"""Which versions of a framework its adaptor takes."""
from __future__ import annotations

import re


def check_version(adaptor: str, framework: str, found: str, oldest: tuple[int, int], below: int) -> None:
    """Raises ImportError, with the range, unless `found`, as "2.4.0+cpu", is of the release `oldest` or later and of a major version under `below`."""
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not oldest <= (int(numbers[1]), int(numbers[2])) < (below, 0):
        raise ImportError(f"{adaptor}: {framework} is version {found}, expected {oldest[0]}.{oldest[1]} or later, below {below}")
