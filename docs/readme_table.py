"""Write the demo's table into the README, between its two markers: `make readme-table`."""

import re
from collections.abc import Iterable
from pathlib import Path

from streamcal.cli import demo_table

README = Path(__file__).resolve().parents[1] / "README.md"
MARKERS = re.compile(r"(?<=<!-- demo-table -->\n).*?(?=<!-- /demo-table -->)", re.DOTALL)


def table_markdown(rows: Iterable[demo_table.Row]) -> str:
    """Return the table in Markdown, the best of each score in bold."""
    names = " | ".join(demo_table.CALIBRATIONS)
    lines = [
        f"| stream | model | log loss {names} | Brier {names} |",
        f"|:--|:--|{'--:|' * 2 * len(demo_table.CALIBRATIONS)}",
    ]
    lines += [f"| {' | '.join(demo_table.cells_of(row, '**', '**'))} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compute the table and replace what stands between the markers."""
    table = table_markdown(demo_table.run())
    text, found = MARKERS.subn(lambda _: f"{table.strip()}\n", README.read_text(encoding="utf-8"))
    if found != 1:
        raise SystemExit(f"{README} must have one pair of demo-table markers, got {found}")
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
