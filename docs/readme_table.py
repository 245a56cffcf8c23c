"""Write the demo's table into the README, between its two markers: `make readme-table`."""

import re
from pathlib import Path

from streamcal.cli import demo_table

README = Path(__file__).resolve().parents[1] / "README.md"
MARKERS = re.compile(r"(?<=<!-- demo-table -->\n).*?(?=<!-- /demo-table -->)", re.DOTALL)


def main() -> None:
    """Compute the table and replace what stands between the markers."""
    table = demo_table.table_markdown(demo_table.run())
    text, found = MARKERS.subn(lambda _: f"{table.strip()}\n", README.read_text(encoding="utf-8"))
    if found != 1:
        raise SystemExit(f"{README} must have one pair of demo-table markers, got {found}")
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
