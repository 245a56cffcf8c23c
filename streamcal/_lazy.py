"""Names of a package that load their modules when they are first touched."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def attach(
    package: str, names: Sequence[str], homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package with these public names.

    ``homes`` holds the module of each name, in full or as seen from the package. Any other public
    name that the package does not define is a module of the package.

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
        elif name in names:
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(names)


def attach_parts(
    package: str, names: Sequence[str], parts: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose parts are packages.

    A name is a module of the package, or that of the first part that lists it in ``__all__``.

    Examples
    --------
    >>> getter, _ = attach_parts("streamcal", ["PAVStack", "losses"], ["calibration", "isotonic"])
    >>> getter("PAVStack").__module__, getter("losses").__name__
    ('streamcal.isotonic.stack', 'streamcal.losses')
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        modules = (import_module(f"{package}.{part}") for part in parts)
        value = next(getattr(module, name) for module in modules if name in module.__all__)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(names)
