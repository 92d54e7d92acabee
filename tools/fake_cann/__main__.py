"""Write a folder laid out like CANN, for tests and for following the documentation without a chip.

    python tools/fake_cann DIR
    source DIR/set_env.sh
    python tools/fake_cann DIR --fail timeout:exp --fail oom    the same folder, with failures
    python tools/fake_cann DIR --seed 7 --noise 0.1             another chip of the same kind

Kernels compile and run on the CPU twin; their times are invented: a cost model with figures changed by up to a quarter,
noise, outliers, and a cost that the model lacks.  No time is a measurement of a chip, and results say so (``fake``).
It compiles with g++ and needs autofuse installed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autofuse.base.diagnostics import AutofuseError
from fake_cann.layout import FAILURES, Options, make


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python tools/fake_cann",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="is made, or written again")
    usual = Options()
    parser.add_argument("--target", default=usual.target, help=f"the chip; {usual.target}")
    parser.add_argument("--chips", type=int, default=usual.chips, help="how many of them; 1")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of hidden figures and noise")
    parser.add_argument("--figures", type=Path, help="a TOML file of figures, none hidden")
    parser.add_argument("--noise", type=float, default=usual.noise, help="share of a time; 0.05")
    parser.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="KIND[:PART]",
        help=f"{', '.join(FAILURES)}; the first three for kernels with PART in their names",
    )
    given = parser.parse_args(argv)
    try:
        figures = given.figures.read_text(encoding="utf-8") if given.figures else None
        made = Options(
            given.target, given.chips, given.seed, figures, given.noise, tuple(given.fail)
        )
        folder = make(given.folder, made)
    except (ValueError, OSError, AutofuseError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    print(f"a fake CANN, no chip: source {folder}/set_env.sh")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
