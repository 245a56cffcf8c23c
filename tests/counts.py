"""Count what is to stay small: ``python -m tests.counts``.

========================  ==========================================================================
``lines of Python``       of the package, without blank lines, comments and docstrings
``lines of Cython``       the same of kernels (``.pyx``, ``.pxd``)
``questions of kind``     `isinstance` and `issubclass` outside ``calibration/`` about a class whose
                          name ends in Calibrator, Ticket or Snapshot, or about a union of such
``public names``          of all packages together; a name of two packages counts once
``places of a name``      lines of the package that list a public name, at most: imports of
                          packages, and strings in tables of modules
========================  ==========================================================================

`tests/test_counts.py` holds the package to some of them.
"""

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from streamcal._lazy import homes_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "streamcal"
_KIND = re.compile(r"(Calibrator|Ticket|Snapshot)s?$")
_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def lines_of_code(path: Path) -> int:
    """Return the number of lines with code: a string alone on its lines is a docstring.

    Cython's text has the tokens of Python.
    """
    lines: set[int] = set()
    with path.open("rb") as file:
        statement: list[tokenize.TokenInfo] = []
        for token in tokenize.tokenize(file.readline):
            if token.type not in _LAYOUT:
                statement.append(token)
            elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
                if any(each.type != tokenize.STRING for each in statement):
                    for each in statement:
                        lines.update(range(each.start[0], each.end[0] + 1))
                statement = []
    return len(lines)


def names_in(node: ast.AST) -> set[str]:
    """Return the names and attributes in an expression."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def kinds_of(tree: ast.Module) -> set[str]:
    """Return the names of a module that mean kinds of calibrators or tickets, or several."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [(each.name, each.asname or each.name) for each in node.names]
            found |= {used for name, used in names if _KIND.search(name)}
        elif isinstance(node, ast.ClassDef) and _KIND.search(node.name):
            found.add(node.name)
    for statement in tree.body:  # unions and tuples of these
        if isinstance(statement, ast.Assign) and names_in(statement.value) & found:
            if isinstance(statement.value, ast.BinOp | ast.Tuple | ast.Name):
                found |= set().union(*(names_in(target) for target in statement.targets))
    return found


def questions_of_kind(source: str) -> list[int]:
    """Return the lines that ask an object or a class which calibrator or ticket it is."""
    tree = ast.parse(source)
    kinds = kinds_of(tree)
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
        and len(node.args) == 2
        and any(name in kinds or _KIND.search(name) for name in names_in(node.args[1]))
    ]


def all_questions() -> dict[str, list[int]]:
    """Return the lines of such questions outside of ``calibration/``, by file."""
    found = {
        path.relative_to(ROOT).as_posix(): questions_of_kind(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "calibration"
    }
    return {path: lines for path, lines in found.items() if lines}


def packages() -> Iterator[str]:
    """Yield the packages that have a list of public names."""
    for path in sorted(PACKAGE.rglob("__init__.pyi")):
        yield ".".join(path.relative_to(ROOT).parent.parts)


def unlisted(package: str) -> set[str]:
    """Return the names in a stub that the package does not list."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    calls = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call))
    keywords = (each for call in calls for each in call.keywords if each.arg == "unlisted")
    return {name for each in keywords for name in ast.literal_eval(each.value)}


def public_names() -> dict[str, set[str]]:
    """Return the public names, and the modules in which each is defined; without packages."""
    homes = {package: homes_of(package) for package in packages()}
    found: dict[str, set[str]] = {}
    for package in homes:
        for name in homes[package].keys() - unlisted(package):
            home = homes[package][name]
            while name in homes.get(home, {}) and homes[home][name] != home:
                home = homes[home][name]
            if home != "streamcal":
                found.setdefault(name, set()).add(home)
    return found


def places(names: Mapping[str, Collection[object]]) -> Counter[str]:
    """Return how many lines of lists in the package have each name, for one of its definitions.

    These are imports of packages, and strings in the tables of a module.
    """
    found: Counter[str] = Counter()
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("__init__.pyi")]:
        where: set[tuple[str, int]] = set()
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            value = getattr(statement, "value", None)
            table = isinstance(value, ast.Dict | ast.List | ast.Set)
            for node in ast.walk(statement):
                if table and isinstance(node, ast.Constant) and isinstance(node.value, str):
                    where.add((node.value, node.lineno))
                elif isinstance(node, ast.ImportFrom) and path.stem == "__init__":
                    where.update((each.name, each.lineno) for each in node.names)
        found.update(name for name, _ in where if name in names)
    return Counter({name: -(-count // len(names[name])) for name, count in found.items()})


def main() -> None:
    """Print the counts."""
    python = sum(map(lines_of_code, PACKAGE.rglob("*.py")))
    kernels = [*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")]
    cython = sum(map(lines_of_code, kernels))
    questions, names = all_questions(), public_names()
    most = places(names).most_common(1)[0]
    print(f"lines of Python    {python:,}")
    print(f"lines of Cython    {cython:,}")
    print(f"questions of kind  {sum(map(len, questions.values()))}")
    print(f"public names       {len(names)}")
    print(f"places of a name   {most[1]} ({most[0]})")
    for path, lines in questions.items():
        print(f"  {path}: {', '.join(map(str, lines))}")


if __name__ == "__main__":
    main()
