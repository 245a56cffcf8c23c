"""Run a module as if only one extra were installed: ``python only_extra.py docs -m sphinx …``.

Modules and metadata of distributions that the extra does not need, directly or indirectly, can't be
found. An empty name means no extra. ``.ci/long`` really installs the extras.
"""

import runpy
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "streamcal-river"


def closure(extra: str) -> set[str]:
    """Return the names of all distributions that are installed with an extra."""
    found: set[tuple[str, str]] = set()
    waiting = [(PACKAGE, extra)]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in found:
            continue
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another system, say
            continue
        found.add((name, wanted))
        for line in requires:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                needed = canonicalize_name(requirement.name)
                waiting += [(needed, each) for each in ("", *requirement.extras)]
    return {name for name, _ in found}


class _Only:
    """A finder that hides other distributions."""

    def __init__(self, finder: Any, hidden: set[str], names: set[str]) -> None:
        self.finder, self.hidden, self.names = finder, hidden, names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] in self.hidden:
            return None
        return self.finder.find_spec(fullname, path, target)

    def find_distributions(self, context: Any = None) -> Iterator[metadata.Distribution]:
        found: Iterable[metadata.Distribution] = ()
        if hasattr(self.finder, "find_distributions"):
            found = self.finder.find_distributions(context or metadata.DistributionFinder.Context())
        for distribution in found:
            if canonicalize_name(distribution.metadata["Name"]) in self.names:
                yield distribution

    def invalidate_caches(self) -> None:
        if hasattr(self.finder, "invalidate_caches"):
            self.finder.invalidate_caches()


def leave_only(extra: str) -> None:
    """Hide distributions that are not installed with an extra from this process."""
    leave(closure(extra))


def hide(extra: str) -> None:
    """Hide what an extra brings from this process."""
    installed = {canonicalize_name(each.metadata["Name"]) for each in metadata.distributions()}
    leave(installed - (closure(extra) - closure("")))


def leave(names: set[str]) -> None:
    """Hide all distributions but these."""
    hidden = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not names & {canonicalize_name(owner) for owner in owners}
    }
    sys.meta_path[:] = [_Only(finder, hidden, names) for finder in sys.meta_path]
    for module in list(sys.modules):
        if module.partition(".")[0] in hidden:
            del sys.modules[module]


if __name__ == "__main__":
    _, extra, dash_m, module, *arguments = sys.argv
    assert dash_m == "-m"
    leave_only(extra)
    sys.path[0] = ""  # as `python -m` has it
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
