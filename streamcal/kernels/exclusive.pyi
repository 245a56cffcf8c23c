from types import TracebackType
from typing import final

class Shared: ...
class Exclusive(Shared): ...

@final
class Mutex(Shared):
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def check_outermost(self) -> None: ...

class NoCollection:
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

no_collection: NoCollection

class NoFork(NoCollection):
    def begin_fork(self) -> None: ...
    def end_fork(self) -> None: ...
    def leave_to_parent(self) -> None: ...

no_fork: NoFork
