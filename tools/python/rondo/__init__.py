"""Rondo: compiles ONNX models into plans, and replays the plans on a CPU or on NVIDIA GPUs.

    import numpy, rondo

    plan = rondo.compile("model.onnx")
    session = rondo.Session(plan)
    outputs = session.run({"x": numpy.ones((1, 3), numpy.float32)})
"""
from ._rondo import Plan, Port, Program, Runtime, __version__
from .compiling import compile  # noqa: A004
from .errors import (Aborted, Cancelled, Code, Corrupt, DeadlineExceeded, Error, FailedPrecondition, Internal, InvalidArgument, Io,
                     NotFound, OutOfMemory, OutOfRange, Unsupported)
from .session import Session

__all__ = ["Aborted", "Cancelled", "Code", "Corrupt", "DeadlineExceeded", "Error", "FailedPrecondition", "Internal", "InvalidArgument",
           "Io", "NotFound", "OutOfMemory", "OutOfRange", "Plan", "Port", "Program", "Runtime", "Session", "Unsupported", "__version__",
           "compile"]
