"""What goes wrong, as exceptions: a sentence, a code, and the model's own node where it is known."""
import enum


class Code(enum.IntEnum):
    """As rondo_code in rondo.h."""

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
    """An error of Rondo. `str(error)` is a sentence: what, where, the value and the limit."""

    code: Code = Code.INTERNAL
    #: The model's own node that it came from; "" where that is not known.
    node: str = ""


class InvalidArgument(Error, ValueError):
    """What was passed is wrong."""

    code = Code.INVALID_ARGUMENT


class NotFound(Error, LookupError):
    """A name or a file does not exist."""

    code = Code.NOT_FOUND


class Unsupported(Error, NotImplementedError):
    """It is valid, but this build, driver or machine cannot do it."""

    code = Code.UNSUPPORTED


class Corrupt(Error):
    """A file contradicts itself or its hash."""

    code = Code.CORRUPT


class OutOfMemory(Error, MemoryError):
    """Host or device memory ran out."""

    code = Code.OUT_OF_MEMORY


class FailedPrecondition(Error, RuntimeError):
    """The object is not in the state that the call needs: closed, or in use by another call."""

    code = Code.FAILED_PRECONDITION


class OutOfRange(Error):
    """Data met in a run lies outside of the declared bounds."""

    code = Code.OUT_OF_RANGE


class Aborted(Error):
    """Stopped from outside."""

    code = Code.ABORTED


class Internal(Error):
    """A broken promise of Rondo itself."""

    code = Code.INTERNAL


class Io(Error, OSError):
    """The operating system refused a read, write or map."""

    code = Code.IO


class Cancelled(Error):
    """Ended by Session.cancel."""

    code = Code.CANCELLED


class DeadlineExceeded(Error, TimeoutError):
    """Ended at a time limit of the caller's."""

    code = Code.DEADLINE_EXCEEDED


_CLASSES = {kind.code: kind for kind in (InvalidArgument, NotFound, Unsupported, Corrupt, OutOfMemory, FailedPrecondition,
                                         OutOfRange, Aborted, Internal, Io, Cancelled, DeadlineExceeded)}


def make(code: int, message: str, node: str) -> Error:
    """The exception for an error of the library."""
    error = _CLASSES.get(Code(code), Error)(message)
    error.node = node
    return error
