"""``npu-smi`` of the fake CANN: ``info``, and ``info -t board|common -i N``."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """Run as npu-smi."""
    about = json.loads((Path(argv[0]) / "fake_cann.json").read_text(encoding="utf-8"))
    words, chips = argv[1:], about["chips"]
    if words[:1] != ["info"]:
        print("npu-smi of the fake CANN knows info, info -t board -i N and info -t common -i N")
        return 1
    if "-t" not in words:
        print(f"| npu-smi {chips[0]['driver']}    a fake |")
        for i, chip in enumerate(chips):
            print(f"| {i}    {chip['soc']}    OK |")
        return 0
    kind = words[words.index("-t") + 1]
    number = int(words[words.index("-i") + 1]) if "-i" in words else 0
    if number >= len(chips) or kind not in ("board", "common"):
        print("no such card", file=sys.stderr)
        return 1
    chip = chips[number]
    if kind == "board":
        print(f"        NPU ID                         : {number}")
        print(f"        Software Version               : {chip['driver']}")
    else:
        print(f"        NPU ID                         : {number}")
        print(f"        Aicore Freq(MHZ)               : {chip['clock_mhz']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
