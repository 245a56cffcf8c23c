"""Compare this working tree with a revision, offline; exit with 1 where something got slower.

Both sides run the benchmarks of *this* tree in *this* environment; only the package differs. The
revision is checked out beside the tree, both are built into separate folders, and one of these is
put on the path. A benchmark of a function that the revision does not have is shown and does not
count. The two sides take turns, so that a machine that slows down does not look like a regression,
and a possible regression is measured once more.

A benchmark is worse if it is slower by the given factor and asv's statistics find the difference
significant. For ``track_*`` benchmarks less is better, too: track costs, not speeds.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".asv" / "compare"
CONFIG = WORK / "asv.conf.json"
ENVIRONMENT = WORK / "python"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both sides, print asv's table and return the exit status."""
    options = parse(arguments)
    base = git("rev-parse", "--verify", "--quiet", f"{options.base}^{{commit}}")
    if not base:
        print(f"no such revision: {options.base}", file=sys.stderr)
        return 2
    # Uncommitted work has no name of its own: `git stash create` gives it one and changes nothing.
    author = ["-c", "user.name=streamcal", "-c", "user.email=streamcal@localhost"]
    tree = git(*author, "stash", "create") or git("rev-parse", "HEAD")
    if tree == base:
        print(f"{options.base} is this tree: nothing to compare", file=sys.stderr)
        return 2

    table, suspects, broken = measure(base, tree, options)
    print(table)
    if suspects:
        print(f"worse than {options.base}: {', '.join(suspects)}")
        return 1
    if broken:
        print("a benchmark fails in this tree, see above")
        return 1
    print(f"nothing is worse than {options.base} by a factor of {options.factor:g}")
    return 0


def measure(base: str, tree: str, options: argparse.Namespace) -> tuple[str, list[str], bool]:
    """Run both sides; return asv's table, what is worse, and whether a benchmark of ours fails."""
    shutil.rmtree(WORK, ignore_errors=True)
    git("worktree", "prune")
    WORK.mkdir(parents=True)
    write_config()
    checkout = WORK / "base"
    git("worktree", "add", "--quiet", "--detach", str(checkout), base)
    try:
        make_environment()
        before, now = build(checkout), build(ROOT)
        for _ in range(options.rounds):
            run(before, base, options.bench)
            broken = run(now, tree, options.bench, ours=True)
        table = compare(base, tree, options.factor)
        suspects = worse(table)
        if suspects:
            print(f"\nmeasured once more: {', '.join(suspects)}\n", flush=True)
            names = "|".join(f"^{re.escape(name)}$" for name in suspects)
            run(before, base, names)
            run(now, tree, names, ours=True)
            table = compare(base, tree, options.factor)
            suspects = worse(table)
    finally:
        git("worktree", "remove", "--force", str(checkout))
    return table, suspects, broken


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--bench", default=".", help="only benchmarks that match this expression")
    parser.add_argument("--rounds", type=int, default=2, help="how often each side has its turn")
    parser.add_argument("--factor", type=float, default=1.2, help="how much slower is worse")
    return parser.parse_args(arguments)


def git(*arguments: str) -> str:
    """Return what git prints in the project's root."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def write_config() -> None:
    """Write a configuration whose results are apart from those of full runs."""
    config = {
        "version": 1,
        "project": "streamcal",
        "repo": str(ROOT),
        "branches": ["HEAD"],
        "environment_type": "virtualenv",
        "benchmark_dir": str(ROOT / "asv_bench" / "benchmarks"),
        "env_dir": str(WORK / "env"),
        "results_dir": str(WORK / "results"),
        "default_benchmark_timeout": 600,
    }
    CONFIG.write_text(json.dumps(config, indent=4))


def make_environment() -> None:
    """Make an environment with all that this one has, but for packages installed in place.

    Their importers come before any path; path files, by which they are set up, are not followed
    from the new environment.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(ENVIRONMENT)]
    subprocess.run(command, check=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(ENVIRONMENT)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")


def build(source: Path) -> Path:
    """Return a folder that holds the package of a tree, ready to be imported."""
    if not (source / "meson.build").is_file():
        return source  # of a time when nothing was built
    target = WORK / "packages" / source.name
    print(f"--- building {source}", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    tools = Path(sys.executable).parent
    path = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "CYTHON": str(tools / "cython")}
    if subprocess.run([*command, str(source)], env=os.environ | path).returncode != 0:
        print(f"{source} could not be built, see above", file=sys.stderr)
        sys.exit(2)
    return target


def asv(command: str, *arguments: str) -> list[str]:
    """Return the command line of an asv command."""
    return [sys.executable, "-m", "asv", command, "--config", str(CONFIG), *arguments]


def run(package: Path, revision: str, bench: str, *, ours: bool = False) -> bool:
    """Add one round with the package in ``package`` to the results; return whether some failed."""
    python = ENVIRONMENT / "bin" / "python"
    command = asv("run", "-E", f"existing:{python}", "--set-commit-hash", revision)
    command += ["--bench", bench, "--append-samples", "-a", "rounds=1"]
    if ours:
        command += ["--show-stderr"]
    # asv's worker takes the first, the processes that a worker starts the second.
    path = {"ASV_PYTHONPATH": str(package), "PYTHONPATH": str(package)}
    print(f"--- {'this tree' if ours else 'base'}: {revision[:8]}", flush=True)
    return subprocess.run(command, cwd=WORK, env=os.environ | path).returncode != 0


def compare(base: str, tree: str, factor: float) -> str:
    """Return asv's table of both sides."""
    command = asv("compare", "--factor", str(factor), base, tree)
    done = subprocess.run(command, cwd=WORK, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print("one side could not even import the benchmarks, see above", file=sys.stderr)
        sys.exit(2)
    return done.stdout


def worse(table: str) -> list[str]:
    """Return the benchmarks that asv's table marks as worse (+) or as newly failing (!)."""
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    return [row[-2] for row in rows if len(row) > 3 and row[1] in {"+", "!"}]


if __name__ == "__main__":
    sys.exit(main())
