"""What a long session costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.lsp.client import insertion
from tests.lsp.conftest import Start

URI = "file:///project/net.py"

#: A class of some size, so that each edit in it leaves a tree of some size.
NET = (
    "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "".join(f"        self.layer{number} = nn.Linear({number}, {number + 1})\n" for number in range(1, 80))
    + "\n    def forward(self, x):\n"
    + "".join(f"        x = self.layer{number}(x)\n" for number in range(1, 80))
    + "        return x\n"
)


@pytest.mark.skipif(sys.platform == "win32", reason="asks ps")
def test_memory_does_not_grow_with_every_keystroke(start: Start) -> None:
    client = start()
    client.initialize()
    client.open(URI, NET)
    sizes = []
    version = 1
    for _ in range(3):
        for _ in range(150):
            version += 1
            client.change(URI, version, insertion(6, 8, "#"))
            client.pull(URI)
        sizes.append(_resident(client.process.pid))
    assert sizes[2] - sizes[1] < 10, f"in MB after each 150 keystrokes: {sizes}"


def _resident(process: int) -> int:
    """Resident memory in MB."""
    listing = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, check=True)
    return int(listing.stdout) // 1024
