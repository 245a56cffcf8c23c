"""Names of a package that load their modules when they are first touched.

The stub of a package, ``__init__.pyi``, is the list of its public names. Type checkers and editors
read it as any stub; `attach` reads the same lines, each ``from module import name as name``.
"""

import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from ([\w.]+) import \(?\s*(\w+) as ", re.MULTILINE)


def homes_of(package: str) -> dict[str, str]:
    """Return the public names of a package and their modules; that of a module is its package.

    Examples
    --------
    >>> homes_of("streamcal.voting")["VoteClassifier"]
    'streamcal.voting.classifier'
    """
    folder = Path(__file__).parent.joinpath(*package.split(".")[1:])
    text = (folder / "__init__.pyi").read_text(encoding="utf-8")
    return {name: home for home, name in _IMPORT.findall(text)}


def attach(
    package: str, unlisted: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from its stub.

    No module of a package has the name of a class or function in it: once imported, the module
    would hide it. Names that are ``unlisted`` can be touched, but are not in ``__all__``: `help`
    touches what is listed, and a part may need an extra.

    Examples
    --------
    >>> getter, lister, names = attach("streamcal.losses")
    >>> getter("Log").__name__, "Log" in lister(), "Log" in names
    ('Log', True, True)
    """
    homes = homes_of(package)
    listed = sorted(homes.keys() - set(unlisted))

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package:
            value: Any = import_module(f"{package}.{name}")
        else:
            try:
                value = getattr(import_module(home), name)
            except ModuleNotFoundError as error:
                if not (error.name or "").startswith("streamcal.kernels."):
                    raise
                raise ImportError(
                    f"streamcal is not compiled in {Path(__file__).parents[1]}: start Python in"
                    " another folder, where it finds the installed package"
                ) from error
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted([*listed, *({"__version__"} & vars(sys.modules[package]).keys())])

    return get, names, listed
