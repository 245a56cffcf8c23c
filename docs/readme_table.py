"""Write the demo's table into the README, between its two markers: `make readme-table`."""

import re
from pathlib import Path

from streamcal.cli import experiment

README = Path(__file__).resolve().parents[1] / "README.md"
MARKERS = re.compile(r"(?<=<!-- demo-table -->\n).*?(?=<!-- /demo-table -->)", re.DOTALL)


def main() -> None:
    """Run the experiment and replace what stands between the markers."""
    table = experiment.table_markdown(experiment.run())
    text, found = MARKERS.subn(lambda _: f"{table.strip()}\n", README.read_text(encoding="utf-8"))
    if found != 1:
        raise SystemExit(f"{README} must have one pair of demo-table markers, got {found}")
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
