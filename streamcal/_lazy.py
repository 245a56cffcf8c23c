"""Names of a package that load their modules when they are first touched."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def attach(
    package: str, names: Sequence[str], homes: Mapping[str, str], parts: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package with these public names.

    ``homes`` holds the module of each name, in full or as seen from the package. Any other public
    name that the package does not define is a module of the package. So are ``parts``, which
    ``__dir__`` leaves out: `help` touches what it lists, and a part may need an extra.

    Examples
    --------
    >>> getter, lister = attach("streamcal.losses", ["Log", "get"], {"Log": "_mean"})
    >>> getter("Log").__name__, lister()
    ('Log', ['Log', 'get'])
    """

    def get(name: str) -> Any:
        if name in homes:
            home = homes[name]
            full = home if home.startswith("streamcal.") else f"{package}.{home}"
            value = getattr(import_module(full), name)
        elif name in names or name in parts:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(names)
