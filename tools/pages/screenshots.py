"""``docs/pictures/*.png``: browser screenshots of ``explain --html`` and ``run --html``, light and dark.

``python tools/pages/screenshots.py`` writes them.  It needs Chromium or Chrome.  Pictures differ slightly between
browser versions, so run it by hand when a page changes; no test compares them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["FILES", "GRAPH", "LIMIT", "browser", "main"]

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ROOT / "examples" / "gallery" / "rms_norm_residual.json"
PICTURES = ROOT / "docs" / "pictures"
#: Maximum bytes of a picture.
LIMIT = 150_000

#: Page -> the verb that writes it with its options, and the window size.  The run has so few loop iterations that
#: single tiles are visible.
_PAGES = {
    "explain": (("explain",), "1000,770"),
    "times": (("run", "--shape", "tokens=512"), "1000,644"),
}
#: Colour scheme -> its number among Chromium's settings.
_SCHEMES = {"light": 1, "dark": 0}
#: The output files.
FILES = tuple(PICTURES / f"{page}_{scheme}.png" for page in _PAGES for scheme in _SCHEMES)

_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: As root, for example in a container, Chromium has no sandbox.  The other flags stop it from checking for updates.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
)


def browser() -> str:
    """Return the browser on PATH.

    Raises:
        SystemExit: there is no browser.
    """
    for name in _BROWSERS:
        found = shutil.which(name)
        if found:
            return found
    sys.exit(f"no browser on PATH ({', '.join(_BROWSERS)}); install one: apt-get install chromium")


def main() -> None:
    """Write all pictures.

    Raises:
        SystemExit: there is no browser, it fails, or a picture is too large.
    """
    program = browser()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, (verb, _) in _PAGES.items():
            command = [
                sys.executable,
                "-m",
                "autofuse",
                *verb,
                str(GRAPH),
                "--html",
                f"{name}.html",
            ]
            subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
        for picture in FILES:
            name, scheme = picture.stem.split("_")
            picture.unlink(missing_ok=True)
            command = [
                program,
                *_FLAGS,
                f"--user-data-dir={work / scheme}",
                f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
                f"--window-size={_PAGES[name][1]}",
                f"--screenshot={picture}",
                (work / f"{name}.html").as_uri(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if not picture.is_file():
                sys.exit(f"{program} made no picture:\n{done.stderr}")
            size = picture.stat().st_size
            if size > LIMIT:
                sys.exit(f"{picture} has {size} bytes, the limit is {LIMIT}")
            print(f"wrote {picture}, {size} bytes")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    main()
