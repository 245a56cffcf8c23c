from types import TracebackType

class Exclusive: ...

class NoCollection:
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

no_collection: NoCollection
