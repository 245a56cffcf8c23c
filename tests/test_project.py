"""What holds for the package as a whole: the direction of its imports, its names, its metadata."""

import ast
import doctest
import graphlib
import inspect
import itertools
import os
import pkgutil
import py_compile
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
import types
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import pytest

import streamcal
from streamcal._lazy import attach, homes_of
from tests.conftest import IN_ONE_PROCESS, OPTIONAL, SLOW, pytest_collection_modifyitems, scope_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "streamcal"
MODULES = sorted(PACKAGE.rglob("*.py"))
KERNELS = sorted(path for end in ("pyx", "pxd", "pyi") for path in PACKAGE.rglob(f"*.{end}"))
SOURCES = MODULES + KERNELS

# A module may import from its own layer and from the layers before it.
LAYERS = [
    {"_advice", "_extras", "_frames", "_lazy", "_processes", "_validation"},
    {"losses"},
    {"kernels"},
    {"_locked", "_state", "_whole"},
    {"isotonic"},
    {"notebook", "export"},
    {"calibration"},
    {"wrappers"},
    {"ordinal", "decision", "voting"},
    {"metrics"},
    {"monitoring"},
    {"durable"},
    {"plot"},
    {"tables", "report", "sklearn", "spark"},
    {"cli", "__main__"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}

# What takes its time to import, required or not.
HEAVY = {"jax", "numba", "pandas", "polars", "river", "scipy", "sklearn"}


APT = "on Debian: apt install make gcc python3-dev python3-venv"


def part_of(path: Path) -> str:
    """Return the part of the package that a file belongs to; "" for the package's own file."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first in ("__init__.py", "__init__.pyi") else first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Return the dotted names that a file imports at any depth, those for type checkers too."""
    if path.suffix in (".pyx", ".pxd"):
        return imports_of_cython(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively at line {node.lineno}"
            if node.module == "streamcal":
                found.update(f"streamcal.{alias.name}" for alias in node.names)
            else:
                found.add(str(node.module))
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imports_of_cython(text: str) -> set[str]:
    """Return the dotted names that Cython imports, compiled (``cimport``) or not."""
    found = set(re.findall(r"^[ \t]*c?import +([\w.]+)", text, re.MULTILINE))
    for module, names in re.findall(
        r"^[ \t]*from +([\w.]+) +c?import +(\([^)]*\)|.*)", text, re.MULTILINE
    ):
        assert not module.startswith("."), f"{module} is imported relatively"
        names = re.sub("#.*", "", names).strip("() \n")
        imported = [name.split()[0] for name in re.split(r"\s*,\s*", names) if name]
        found.update(f"{module}.{name}" for name in imported)
        found.update([module] if module != "streamcal" else [])
    return found


def test_imports_of_cython_are_found() -> None:
    text = (
        "import os\ncimport streamcal.a\nfrom libc.math cimport exp, log as ln  # both\n"
        "from streamcal import b\n    from streamcal.c cimport (\n        D, E,\n    )\n"
        '"""Rows\nfrom ``bounds[r]`` to the last."""\n'
    )
    assert imports_of_cython(text) == {
        *("os", "streamcal.a", "libc.math", "libc.math.exp", "libc.math.log"),
        *("streamcal.b", "streamcal.c", "streamcal.c.D", "streamcal.c.E"),
    }


def test_every_part_has_a_layer() -> None:
    assert {part_of(path) for path in SOURCES} - {""} <= set(RANK)


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if part_of(path)], ids=lambda path: path.name
)
def test_nothing_imports_upward(path: Any) -> None:
    for name in imports(path):
        first, _, rest = name.partition(".")
        if first != "streamcal" or RANK[part_of(path)] == len(LAYERS) - 1:
            continue
        target = rest.split(".")[0]
        assert target in RANK, f"{path} imports {name}: name the module it needs"
        assert RANK[target] <= RANK[part_of(path)], f"{path} imports upward: {name}"


def test_no_imports_run_in_a_circle() -> None:
    """Deferred ones count, too; packages do not, since they load their names on demand."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        if path.name != "__init__.py" and path.suffix != ".pyi":
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            graph[name] = graph.get(name, set()) | imports(path) - {name}
    graph = {name: found & set(graph) for name, found in graph.items()}
    assert graph["streamcal.isotonic.stack"] >= {"streamcal.isotonic.mean_stack"}
    assert graph["streamcal.kernels.joint"] >= {"streamcal.kernels.hedge"}
    graphlib.TopologicalSorter(graph).prepare()  # raises where there is a circle


def test_what_other_packages_import_has_no_underscore() -> None:
    """A module with one is for its own package; those of the package as a whole are for all."""
    for path in MODULES:
        inside = ".".join(path.relative_to(ROOT).parent.parts)
        for name in imports(path):
            parts = name.split(".")
            private = [i for i, part in enumerate(parts) if re.match("_[a-z]", part)]
            home = ".".join(parts[: private[0]]) if private else ""
            if home.startswith("streamcal."):
                assert f"{inside}.".startswith(f"{home}."), f"{path} imports {name}"


def test_losses_and_kernels_know_nothing_of_river_or_data_frames() -> None:
    for path in SOURCES:
        if part_of(path) in {"_validation", "losses", "kernels"}:
            found = imports(path)
            roots = {name.split(".")[0] for name in found}
            assert not roots & {"river", "pandas", "polars", "narwhals", *OPTIONAL}, path
            assert "streamcal._frames" not in found, path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_caches_without_a_bound_hold_names_and_classes_only(path: Path) -> None:
    """They keep their arguments alive as long as the process runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        decorators = map(ast.unparse, getattr(node, "decorator_list", []))
        if {"cache", "functools.cache"} & set(decorators):
            assert isinstance(node, ast.FunctionDef)
            annotations = [ast.unparse(each.annotation or each) for each in node.args.args]
            assert set(annotations) <= {"str", "type"}, f"{path}, {node.name}"


def output_of(code: Any) -> Any:
    """Run code in a process of its own; return the lines that it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_first_fit_loads_nothing_heavy() -> None:
    code = (
        "import sys, streamcal\n"
        "print(streamcal.isotonic_fit([3, 1, 2], [1, 0, 1]).values)\n"
        f"print([name for name in {sorted(HEAVY)} if name in sys.modules])"
    )
    assert output_of(code) == ["[0. 1.]", "[]"]


def test_the_first_ordinal_learner_is_compiled_already() -> None:
    code = (
        "import sys\n"
        "from streamcal.ordinal import CuSumRank\n"
        "model = CuSumRank()\n"
        "for y in (1, 3, 2): model.learn_one({'x': float(y)}, y)\n"
        "print(model.predict_one({'x': 3.0}) in (1, 2, 3))\n"
        "print([name for name in ('jax', 'numba', 'scipy.special') if name in sys.modules])"
    )
    assert output_of(code) == ["True", "[]"]


def test_the_first_decision_loads_nothing_heavy() -> None:
    code = (
        "import sys, streamcal\n"
        "print(streamcal.maximize([0.1, 0.7, 0.4], 'f1').k)\n"
        f"print([name for name in {sorted(HEAVY)} if name in sys.modules])"
    )
    assert output_of(code) == ["2", "[]"]


def test_import_is_light() -> None:
    heavy = [
        "jax",
        "matplotlib",
        "numba",
        "pandas",
        "polars",
        "pyarrow",
        "scipy",
        "sklearn",
        "typer",
    ]
    code = f"import sys, streamcal; print([name for name in {heavy} if name in sys.modules])"
    assert output_of(code) == ["[]"]


def test_the_command_line_starts_light() -> None:
    pytest.importorskip("typer")
    heavy = sorted(HEAVY | (OPTIONAL - {"typer"}) | {"sqlite3", "streamcal.losses"})
    code = (
        f"import sys, streamcal.cli.app; print([name for name in {heavy} if name in sys.modules])"
    )
    assert output_of(code) == ["[]"]


def test_optional_packages_load_only_when_used() -> None:
    code = (
        "import sys, streamcal\n"
        "for name in streamcal.__all__: getattr(streamcal, name)\n"
        f"print([name for name in {sorted(OPTIONAL)} if name in sys.modules])"
    )
    assert output_of(code) == ["[]"]


@pytest.mark.parametrize("part", sorted(homes_of("streamcal").keys() - set(streamcal.__all__)))
def test_other_parts_load_when_touched(part: str) -> None:
    pytest.importorskip({"sklearn": "sklearn", "spark": "pyspark"}.get(part, "river"))
    code = (
        "import sys, streamcal\n"
        f"print('streamcal.{part}' in sys.modules, streamcal.{part}.__name__)"
    )
    assert output_of(code) == [f"False streamcal.{part}"]


def test_a_part_that_lacks_its_extra_says_so_and_nothing_else_fails() -> None:
    code = (
        "import inspect, sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(OPTIONAL)}))\n"
        "import streamcal\n"
        "print(dict(inspect.getmembers(streamcal)).keys() >= {*streamcal.__all__})\n"
        "for name in ('sklearn', 'spark'):\n"
        "    try: getattr(streamcal, name)\n"
        "    except ImportError as error: print(error)"
    )
    listed, *errors = output_of(code)
    assert listed == "True"
    for error, extra in zip(errors, ("sklearn", "spark"), strict=True):
        assert error.startswith(f"streamcal.{extra} needs ")
        assert error.endswith(f"pip install '.[{extra}]' in the checkout")


@pytest.mark.parametrize("name", streamcal.__all__)
def test_public_names_resolve_and_are_documented(name: Any) -> None:
    thing = getattr(streamcal, name)
    assert inspect.getdoc(thing)
    assert name in dir(streamcal)
    members = vars(thing).items() if inspect.isclass(thing) else ()
    for attribute, value in members:
        if not attribute.startswith("_") and (inspect.isfunction(value) or type(value) is property):
            assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"


@pytest.mark.parametrize(
    "part",
    [
        "losses",
        "isotonic",
        "calibration",
        "ordinal",
        "decision",
        "durable",
        "voting",
        "metrics",
        "monitoring",
        "plot",
        "report",
        "sklearn",
        "spark",
    ],
)
def test_public_names_of_parts_resolve_and_are_documented(part: str) -> None:
    module = __import__(f"streamcal.{part}", fromlist=["__all__"])
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), name


def test_no_module_hides_a_public_name_of_its_package() -> None:
    """An imported module becomes an attribute of its package, in the place of a function."""
    for path in PACKAGE.rglob("__init__.pyi"):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        homes = homes_of(package)
        functions = {name for name, home in homes.items() if home != package}
        assert not functions & {found.name for found in pkgutil.iter_modules([str(path.parent)])}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'streamcal' has no attribute 'nothing'"):
        getattr(streamcal, "nothing")  # noqa: B009


def test_the_changelog_is_at_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {streamcal.__version__}" in changelog


def test_the_map_of_the_tree_names_files_that_exist() -> None:
    """The table of questions in CONTRIBUTING.md, and the modules in the map below it."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = [line for line in guide.splitlines() if line.startswith("| ")]
    named = re.findall(r"`((?:streamcal|tests|asv_bench|\.ci)/[\w./]+)`", "\n".join(table))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
    parts = re.findall(r"^  ([a-z_]+(?:/|\.pyi?)) ", guide, re.MULTILINE)
    on_disk = {f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir()}
    on_disk -= {"__pycache__/", "__init__.py", "py.typed", "meson.build"}
    assert set(parts) == {name for name in on_disk if not name.startswith(".")}


def test_the_answers_of_the_guide_name_what_is_there() -> None:
    """Where a row says that names are in a module, they are; and each file is there."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = "\n".join(re.findall(r"^\| .*\|$", guide, re.MULTILINE))
    tree = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [f"/{path}" for path in tree.stdout.splitlines()]
    for named in re.findall(r"`([\w./]+\.(?:pyx?|md|json))`", table):
        assert any(path.endswith(f"/{named}") for path in files), f"there is no {named}"
    known = (*SOURCES, *(ROOT / "docs").glob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in known}
    found = re.findall(r"^\| .*? \| (.*?) \| ", guide, re.MULTILINE)
    given = re.findall(r"((?:`\w+`(?:, | and | or )?)+) in `([\w./]+\.pyx?)`", "\n".join(found))
    assert len(given) > 15
    for names, module in given:
        places = [each for path, each in sources.items() if f"/{path}".endswith(f"/{module}")]
        assert places, f"there is no {module}"
        text = "\n".join(places)
        for name in re.findall(r"\w+", names.replace(" and ", " ").replace(" or ", " ")):
            assert re.search(rf"\b{name}\b", text), f"{name} is not in {module}"


def test_no_test_limits_its_own_process() -> None:
    """CPython keeps byte code that a limit or a full disk has cut off, and fails ever after."""
    for path in sorted((ROOT / "tests").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text)) if "setrlimit" in text else ()
        names = {getattr(node, "attr", getattr(node, "id", None)) for node in nodes}
        limits = "setrlimit" in names
        assert not limits or path.name == "hostile_states.py", f"{path} limits its own process"
        if "setrlimit(" in text and path.name not in ("hostile_states.py", "test_project.py"):
            assert "*WITHOUT_BYTE_CODE," in text, f"{path} limits a process that writes byte code"


def test_files_that_share_what_is_slow_to_make_stay_in_one_process() -> None:
    shared = [ROOT / "tests" / f"test_{name}.py" for name in IN_ONE_PROCESS | SLOW]
    assert all(path.exists() for path in shared)
    assert scope_of("tests/test_spark.py::test_a[x::y/z]") == "tests/test_spark.py"
    assert scope_of("tests/test_store.py::test_a[x]") == "tests/test_store.py::test_a[x]"


def test_the_citation_is_of_this_version_and_licence() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"version: {streamcal.__version__}" in citation
    assert f"license: {project['license']}" in citation


def test_every_package_of_the_gates_has_a_version_that_is_known_to_work() -> None:
    def name(requirement: Any) -> Any:
        return re.split(r"[^\w-]", requirement)[0].lower().replace("_", "-")

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    needed = [*project["dependencies"], *(line for extra in extras for line in extra)]
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    known = {name(line) for line in lines if "==" in line}
    assert {name(line) for line in needed} - {project["name"]} <= known


def test_no_extra_brings_a_second_compiler() -> None:
    for path in (ROOT / "pyproject.toml", ROOT / ".ci" / "constraints.txt"):
        assert not re.search("numba|llvmlite", path.read_text(encoding="utf-8"))
    # The benchmarks' peers that need one are skipped without it.
    done = output_of(
        f"import sys; sys.path.insert(0, {str(ROOT / 'asv_bench')!r})\n"
        "sys.modules['numba'] = None\n"
        "from benchmarks import bench_staircase, bench_thresholds\n"
        "for skipped in (\n"
        "    lambda: bench_staircase.Window().setup('block-local', 500, 'bernoulli'),\n"
        "    lambda: bench_thresholds.Table1.time_dp_as_printed.setup(26),\n"
        "):\n"
        "    try: skipped()\n"
        "    except NotImplementedError as error: print(error)\n"
        "bench_staircase.Window().setup('refit', 500, 'bernoulli')\n"
        "bench_thresholds.Table1.n = 1_000\n"
        "bench_thresholds.Table1().setup(26)\n"
    )
    assert done == ["numba is not installed"] * 2


def test_dependencies_are_those_that_are_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: Any) -> Any:
        return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}

    imported = {name.split(".")[0] for path in SOURCES for name in imports(path)}
    of_cython = {"cpython", "cython", "libc"}
    third_party = imported - set(sys.stdlib_module_names) - of_cython - {"streamcal"}
    assert third_party - OPTIONAL == names(project["dependencies"])
    extras = project["optional-dependencies"]
    named = {"google": "protobuf", "confluent_kafka": "confluent-kafka", "sklearn": "scikit-learn"}
    optional = {named.get(name, name) for name in third_party & OPTIONAL}
    assert optional == set().union(
        *(names(extras[extra]) for extra in ("cli", "jax", "kafka", "onnx", "sklearn", "spark"))
    )
    assert names(extras["plot"]) == {"matplotlib"}


def significant(number: str) -> int:
    """Return how many significant digits a number as it is written has."""
    mantissa = re.split("[eE]", number)[0]
    return len(re.sub(r"[._]|^0+(?=[1-9])", "", mantissa.lstrip("-0.")))


def test_significant_digits_are_counted() -> None:
    assert [significant(n) for n in ("0.25", "-0.00012", "1_000.5e-17", "12")] == [2, 2, 5, 2]


def wanted_by_doctests(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each answer that a file's doctests want."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        examples = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
        found += [(getattr(node, "lineno", 1), example.want) for example in examples]
    return found


def literals(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each number in a file, but for lines marked as exact."""
    with path.open("rb") as file:
        return [
            (token.start[0], token.string)
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.NUMBER and "# exact" not in token.line
        ]


@pytest.mark.parametrize("folder", ["streamcal", "tests"])
def test_no_expected_number_has_digits_that_processors_disagree_on(folder: str) -> None:
    """The last digit of an exponential or of a sum is another one elsewhere: print fewer.

    A literal of exact arithmetic says so in its line: ``# exact``.
    """
    for path in sorted((ROOT / folder).rglob("*.py")):
        answers = wanted_by_doctests(path) + (literals(path) if folder == "tests" else [])
        for line, text in answers:
            for number in re.findall(r"\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\.\d+", text):
                assert significant(number) <= 12, f"{path}, line {line}: {number}"


def test_missing_java_is_reported(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for path, script in (
        (tmp_path / "java", "echo ' java.specification.version = 1.8'"),
        (tmp_path / ".venv" / "bin" / "python", "exit 1"),
    ):
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "java"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Java 17 or newer is not here (but 1.8)" in done.stderr
    assert "apt install openjdk-17-jre-headless" in done.stderr


@pytest.mark.parametrize("npm", [None, "exit 1"])
def test_missing_browser_is_reported(npm: str | None, tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "mkdir", "rm", "uname"):
        (tools / name).symlink_to(shutil.which(name))
    if npm:
        (tools / "npm").write_text(f"#!/bin/sh\n{npm}\n")
        (tools / "npm").chmod(0o755)
    done = subprocess.run(
        [str(shutil.which("bash")), tmp_path / ".ci" / "browser"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "the report is not tested in a browser" in done.stderr
    assert "apt install chromium" in done.stderr


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("", "python was not found; Python 3.11 or newer is needed; " + APT),
        ('[ "$1" = -V ] && echo Python 3.9.2; exit 1', "is needed, python is 3.9.2"),
        ('[ "${2#*Python.h}" = "$2" ]', "the headers of python were not found; " + APT),
        ('[ "$2" != "import venv, ensurepip" ]', "(venv or ensurepip is missing); " + APT),
    ],
)
def test_missing_tools_are_reported(python: str, message: Any, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "venv", tmp_path / ".ci")
    if python:
        (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
        (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "venv", "cli"],
        env=os.environ | {"PYTHON": "python", "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr.splitlines()[0]
    assert not (tmp_path / ".venv").exists()


def test_missing_compiler_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "venv", tmp_path / ".ci")
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        [tmp_path / "bash", tmp_path / ".ci" / "venv", "cli"],
        env={"PYTHON": sys.executable, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"streamcal: a C compiler was not found; {APT}\n"
    assert not (tmp_path / ".venv").exists()


def test_a_wheel_holds_what_belongs_to_the_package(tmp_path: Path) -> None:
    package = ["__init__.py", "py.typed", "report/page.html", "kernels/pav.pyi"]
    others = [
        "__pycache__/__init__.cpython-313.pyc",
        "kernels/__pycache__/of-a-cache.py",
        "kernels/pav.cpython-313-x86_64-linux-gnu.so",
        "kernels/pav.pyx",
        "notes",
        "scratch.txt",
    ]
    for name in package + others:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    command = [sys.executable, ROOT / "not_installed.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == others
    build = (PACKAGE / "meson.build").read_text(encoding="utf-8")
    assert "files('../not_installed.py')" in build
    assert re.findall("exclude_files: (.*),", build) == ["not_installed"]


@pytest.fixture
def left_behind(tmp_path: Path) -> Any:
    """A checkout, and what the gate says of it."""
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    (checkout / ".ci").mkdir(parents=True)
    home.mkdir()
    shutil.copy(ROOT / ".ci" / "left_behind.py", checkout / ".ci")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(["git", "init", "--quiet", checkout], env=environment, check=True)
    (checkout / "mine").touch()

    def call(action: str) -> Any:
        script = checkout / ".ci" / "left_behind.py"
        return subprocess.run(
            [sys.executable, script, action, tmp_path / "before", home],
            env=environment,
            capture_output=True,
            text=True,
        )

    assert call("note").returncode == 0
    return types.SimpleNamespace(checkout=checkout, home=home, check=lambda: call("check"))


def test_what_gates_leave_behind_is_named(left_behind: Any) -> None:
    checkout, home = left_behind.checkout, left_behind.home
    source = checkout / "module.py"
    source.write_text("names = " + repr(list(range(1000))))
    sound, torn, empty, foreign = (checkout / ".venv" / f"{name}.pyc" for name in "abcd")
    for path in (sound, torn, empty, foreign):
        py_compile.compile(str(source), str(path))
    source.unlink()
    (checkout / ".gitignore").write_text(".venv\n")
    foreign.write_bytes(b"1234" + foreign.read_bytes()[4:100])
    left_behind.check()
    torn.write_bytes(torn.read_bytes()[:2048])
    empty.write_bytes(b"")
    (home / ".config").mkdir()
    (home / ".config" / "settings").touch()
    done = left_behind.check()
    assert done.returncode == 1
    lines = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    # Tests that run beside this one may leave shared memory for a moment.
    lines = [line for line in lines if not line.startswith("/dev/shm/")]
    assert lines == [str(torn), str(empty), ".gitignore", "~/.config/settings"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="shared memory is no folder here")
def test_shared_memory_that_no_process_uses_is_named(left_behind: Any) -> None:
    memory = SharedMemory(create=True, size=100)
    path = f"/dev/shm/{memory.name.lstrip('/')}"
    try:
        assert path not in left_behind.check().stdout
        memory.close()
        assert f"{path}: shared memory that no process uses" in left_behind.check().stdout
    finally:
        memory.unlink()
    assert path not in left_behind.check().stdout


def test_a_number_orders_the_files_and_the_tests_of_each() -> None:
    def ordered(order: str | None) -> list[str]:
        items: Any = [types.SimpleNamespace(path=at[0], at=at) for at in sorted(names)]
        config: Any = types.SimpleNamespace(option=types.SimpleNamespace(order=order))
        pytest_collection_modifyitems(config, items)
        return [item.at for item in items]

    names = [file + str(number) for file in "abcdefgh" for number in range(9)]
    assert ordered(None) == names
    one, other = ordered("1"), ordered("2")
    assert names != one == ordered("1") != other
    assert sorted(one) == names
    assert len(list(itertools.groupby(one, lambda name: name[0]))) == 8


def test_a_folder_that_is_not_compiled_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    getter, _, _ = attach("streamcal")

    def miss(_: str) -> None:
        raise ModuleNotFoundError("No module", name="streamcal.kernels.isotonic")

    monkeypatch.setattr("streamcal._lazy.import_module", miss)
    with pytest.raises(ImportError, match=r"not compiled in .*: start Python in another folder"):
        getter("IsotonicCalibrator")
