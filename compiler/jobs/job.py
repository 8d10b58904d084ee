"""What all jobs of compiling have in common, known to both sides."""

from typing import Protocol, TypeVar

from onnxc.runtime.records import record

__all__ = ["Answer", "AnyJob", "Failed", "Job"]


class Job(Protocol):
    """Something to compile; the longest texts are given out first."""

    @property
    def text(self) -> str:
        """The source."""


@record
class Failed:
    """What does not compile, and why."""

    reason: str


AnyJob = TypeVar("AnyJob", bound=Job)
Answer = TypeVar("Answer")
