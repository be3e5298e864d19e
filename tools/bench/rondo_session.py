"""Runs a plan from Python through rondo.h, with numpy arrays, for comparisons over many runs."""
import ctypes

import numpy as np

MAX_RANK = 8
# By number of rondo_dtype. bf16 and FP8 are given as their bits.
DTYPES = [np.float32, np.float16, np.uint16, np.float64, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16,
          np.uint32, np.uint64, np.bool_, np.uint8, np.uint8]


class Port(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int),
                ("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * MAX_RANK), ("bytes", ctypes.c_uint64),
                ("is_state", ctypes.c_int32), ("device", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("index", ctypes.c_uint32),
                ("dtype", ctypes.c_int), ("rank", ctypes.c_uint32), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("memory", ctypes.c_int)]


class Session:
    """A session on the host or cuda driver. `libraries`: the folder of librondo.so and librondo_host.so or librondo_cuda.so.
    `library_path`: the folder of cuBLASLt."""

    def __init__(self, libraries, plan, threads=1, driver="host", library_path=None):
        self.lib = ctypes.CDLL(str(libraries / "librondo.so"), ctypes.RTLD_GLOBAL)
        drivers = ctypes.CDLL(str(libraries / f"librondo_{driver}.so"))
        for name in ("rondo_plan_open", "rondo_runtime_create", "rondo_session_create", "rondo_session_run",
                     "rondo_plan_find_program", "rondo_plan_get_port", "rondo_session_reset_state"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.rondo_error_message.restype = ctypes.c_char_p
        create = getattr(drivers, f"rondo_{driver}_driver_create")
        create.restype = ctypes.c_void_p
        self.plan, self.runtime, self.session = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.rondo_plan_open(str(plan).encode(), None, ctypes.byref(self.plan)))
        path = library_path.encode() if library_path else None
        made = ctypes.c_void_p(create(threads, 1) if driver == "host" else create(path))
        self.check(self.lib.rondo_runtime_create(made, None, ctypes.byref(self.runtime)))
        self.check(self.lib.rondo_session_create(self.runtime, self.plan, ctypes.byref(self.session)))

    def check(self, error):
        if error:
            raise RuntimeError(self.lib.rondo_error_message(ctypes.c_void_p(error)).decode())

    def ports(self, program, direction):
        ports = []
        for index in range(self.lib.rondo_plan_port_count(self.plan, program, direction)):
            port = Port(size=ctypes.sizeof(Port))
            self.check(self.lib.rondo_plan_get_port(self.plan, program, direction, index, ctypes.byref(port)))
            ports.append((port.name.decode(), port.dtype, tuple(port.dims[:port.rank]), bool(port.is_state)))
        return ports

    def program(self, name):
        index = ctypes.c_uint32()
        self.check(self.lib.rondo_plan_find_program(self.plan, name.encode(), ctypes.byref(index)))
        return index.value

    def reset(self):
        self.check(self.lib.rondo_session_reset_state(self.session))

    def fitted(self, program, arrays):
        """Those of `arrays` that the program takes, converted to its types. Integers and bools must keep their values; floats are
        rounded to other float types. ValueError names an input that does not fit. bf16 is given as its bits."""
        fitted = {}
        for name, dtype, _, _ in self.ports(self.program(program), 0):
            if name not in arrays:
                continue
            array, wanted = np.asarray(arrays[name]), np.dtype(DTYPES[dtype])
            cast = array.astype(wanted)
            rounds = array.dtype.kind == "f" and wanted.kind == "f"
            if not rounds and not (array.dtype.kind != "f" and np.array_equal(cast, array)):
                raise ValueError(f"input {name!r} is {wanted}: values of {array.dtype} do not fit it as they are")
            fitted[name] = cast
        return fitted

    def run(self, program, inputs):
        """Returns the outputs by name, except states. `inputs`: {name: array}. ValueError for an input that the program does not take,
        or for a wrong type or shape: nothing is cast (see `fitted`)."""
        number = self.program(program)
        given_ports, taken_ports = self.ports(number, 0), [port for port in self.ports(number, 1) if not port[3]]
        dtypes = {name: dtype for name, dtype, _, _ in given_ports}
        for name in inputs:
            if name not in dtypes:
                raise ValueError(f"program {program!r} has no input {name!r}; it has: {', '.join(dtypes)}")
        given = {}
        for name, dtype, shape, _ in given_ports:
            if name not in inputs:
                continue
            array = np.asarray(inputs[name])
            if array.dtype != DTYPES[dtype] or array.shape != shape:
                raise ValueError(f"input {name!r} of program {program!r} is {np.dtype(DTYPES[dtype])}{list(shape)}, "
                                 f"not {array.dtype}{list(array.shape)}")
            given[name] = np.ascontiguousarray(array).reshape(shape)
        outputs = {name: np.zeros(shape, DTYPES[dtype]) for name, dtype, shape, _ in taken_ports}
        kept = []

        def tensors(arrays, numbers):
            out = (Tensor * len(arrays))()
            for at, (name, array) in zip(out, arrays.items()):
                dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
                kept.append(dims)
                at.size, at.name, at.dtype = ctypes.sizeof(Tensor), name.encode(), numbers[name]
                at.rank, at.dims, at.data, at.bytes = array.ndim, dims, array.ctypes.data, array.nbytes
            return out

        taken = {name: dtype for name, dtype, _, _ in taken_ports}
        self.check(self.lib.rondo_session_run(self.session, number, tensors(given, dtypes), ctypes.c_size_t(len(given)),
                                              tensors(outputs, taken), ctypes.c_size_t(len(outputs)), None))
        return outputs

    def close(self):
        for name, handle in (("session", self.session), ("runtime", self.runtime), ("plan", self.plan)):
            getattr(self.lib, f"rondo_{name}_destroy")(handle)


def run_fitted(session, program, arrays):
    """Runs on those of `arrays` that the program takes, converted to its types."""
    return session.run(program, session.fitted(program, arrays))
