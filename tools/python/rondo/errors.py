"""Rondo's errors as exceptions: each has a sentence, a code, and the model's own node if it is known."""
import enum


class Code(enum.IntEnum):
    """The numbers of rondo_code in rondo.h."""

    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    UNSUPPORTED = 3
    CORRUPT = 4
    OUT_OF_MEMORY = 5
    FAILED_PRECONDITION = 6
    OUT_OF_RANGE = 7
    ABORTED = 8
    INTERNAL = 9
    IO = 10
    CANCELLED = 11
    DEADLINE_EXCEEDED = 12


class Error(Exception):
    """An error of Rondo. `str(error)` is a sentence that says what, where, the value and the limit."""

    code: Code = Code.INTERNAL
    #: The model's own node that caused it; "" if unknown.
    node: str = ""


class InvalidArgument(Error, ValueError):
    """An argument is wrong."""

    code = Code.INVALID_ARGUMENT


class NotFound(Error, LookupError):
    """A name or a file does not exist."""

    code = Code.NOT_FOUND


class Unsupported(Error, NotImplementedError):
    """The request is valid, but this build, driver or machine cannot do it."""

    code = Code.UNSUPPORTED


class Corrupt(Error):
    """A file contradicts itself or its hash."""

    code = Code.CORRUPT


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""

    code = Code.OUT_OF_MEMORY


class FailedPrecondition(Error, RuntimeError):
    """The object is not in the state that the call needs: for example closed, or in use by another call."""

    code = Code.FAILED_PRECONDITION


class OutOfRange(Error):
    """Data in a run lies outside the declared bounds."""

    code = Code.OUT_OF_RANGE


class Aborted(Error):
    """The call was stopped from outside."""

    code = Code.ABORTED


class Internal(Error):
    """A bug in Rondo: it broke one of its own promises."""

    code = Code.INTERNAL


class Io(Error, OSError):
    """The operating system refused a read, write or map."""

    code = Code.IO


class Cancelled(Error):
    """Session.cancel ended the run."""

    code = Code.CANCELLED


class DeadlineExceeded(Error, TimeoutError):
    """The caller's time limit ended the call."""

    code = Code.DEADLINE_EXCEEDED


_CLASSES = {kind.code: kind for kind in (InvalidArgument, NotFound, Unsupported, Corrupt, OutOfMemory, FailedPrecondition,
                                         OutOfRange, Aborted, Internal, Io, Cancelled, DeadlineExceeded)}


def make(code: int, message: str, node: str) -> Error:
    """Makes the exception for an error of the library."""
    error = _CLASSES.get(Code(code), Error)(message)
    error.node = node
    return error
