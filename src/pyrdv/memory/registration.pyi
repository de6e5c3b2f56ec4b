"""The registration cache: which memory stays registered after the message that needed it."""

class Registrations:
    def __new__(
        cls,
        mode: str = "auto",
        bytes_max: int = 1073741824,
        entries_max: int = 1024,
        everywhere: bool = False,
    ) -> Registrations: ...
    @property
    def everywhere(self) -> bool: ...
    def counters(self) -> dict[str, int]: ...

class Watch:
    def __call__(self, reference: object) -> None: ...
