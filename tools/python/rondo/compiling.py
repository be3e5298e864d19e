"""rondo.compile: compiles ONNX models into one plan."""
from __future__ import annotations

import operator
import os
import pathlib
import tempfile
from typing import Any, Callable, Mapping, Sequence, Union

from . import _rondo
from ._rondo import Plan
from .errors import InvalidArgument

#: A file, a model's bytes, or an onnx.ModelProto.
Model = Union[str, "os.PathLike[str]", bytes, Any]


def _path_of(program: str, model: Model, folder: str) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise InvalidArgument(f"the model of program {program!r} is a {type(model).__name__}: give a path, bytes or an onnx.ModelProto")
    path = pathlib.Path(folder, f"model{len(os.listdir(folder))}.onnx")
    path.write_bytes(model)
    return str(path)


def _dims(name: str, shape: int | Sequence[int]) -> list[int]:
    try:
        return [operator.index(shape)]
    except TypeError:
        pass
    try:
        return [operator.index(dim) for dim in shape]
    except TypeError:
        raise InvalidArgument(f"shapes gives {name!r} {shape!r}: give a whole number or a list of them") from None


def _shapes_of(shapes: Mapping[str, Any] | None, programs: Sequence[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Splits `shapes` into those for all models and those for single programs, like {"decode": {"tokens": (1, 1)}}."""
    for_all: dict[str, Any] = {}
    for_one: dict[str, dict[str, Any]] = {program: {} for program in programs}
    for name, shape in (shapes or {}).items():
        if isinstance(shape, Mapping):
            if name not in for_one:
                raise InvalidArgument(f"shapes has {name!r}, which is none of the programs {', '.join(programs)}")
            for_one[name] = {port: _dims(port, dims) for port, dims in shape.items()}
        else:
            for_all[name] = _dims(name, shape)
    return for_all, for_one


def compile(model: Model | Mapping[str, Model], *,  # noqa: A001, the name of the thing
            shapes: Mapping[str, Any] | None = None,
            target: str | None = None,
            precision: str | None = None,
            quantize_weights: str | None = None,
            bound_inputs: Mapping[str, float] | None = None,
            bounds: Mapping[str, int] | None = None,
            states: Mapping[str, str] | None = None,
            auto_state: bool | None = None,
            donate: Sequence[str] | None = None,
            cache_length: int | None = None,
            position_masks: Sequence[str] | None = None,
            sample: str | None = None,
            devices: int | None = None,
            tensor_parallel: int | None = None,
            pipeline_parallel: int | None = None,
            weights: str | None = None,
            variants: str | None = None,
            matmuls: str | None = None,
            deterministic: bool | None = None,
            annotations: Sequence[str] | None = None,
            break_before: Sequence[str] | None = None,
            external_data: Sequence[str] | None = None,
            synthetic_weights: int | None = None,
            live_weights: bool | None = None,
            library_path: str | None = None,
            threads: int | None = None,
            op_libraries: Sequence[Union[str, "os.PathLike[str]"]] = (),
            output: Union[str, "os.PathLike[str]", None] = None,
            progress: Callable[[str, str], object] | None = None) -> Plan:
    """Compiles a model, or several into one plan as {program: model}. Needs no GPU. Other threads can run meanwhile.

    model: a path, bytes or an onnx.ModelProto; a model with external data is given by its path.
    shapes: the shapes that the model leaves open, as {input: dims}, {symbolic dimension: value}, or {program: {...}} for one model.
    target: "host", "cuda:sm_90a", or several, separated by ','.
    bounds: {node: the most rounds of a Loop, or boxes of a class}, if data decide the number.
    states: {input: output} pairs that are one persistent buffer, in addition to those found by name (auto_state).
    output: a path to write the plan to, for large weights; it is opened from there. Otherwise the plan stays in memory (Plan.save writes it).
    progress: called with the name of a program ("" for all) and of a pass when the pass begins. An exception from it ends the compilation.

    The other options are those of `rondo compile`; its --help explains them. None means the default.
    """
    models: Mapping[str, Model] = model if isinstance(model, Mapping) else {"main": model}
    for_all, for_one = _shapes_of(shapes, list(models))
    given = dict(
        shapes=for_all or None, target=target, precision=precision, quantize_weights=quantize_weights,
        bound_inputs=None if bound_inputs is None else {name: float(value) for name, value in bound_inputs.items()},
        bounds=None if bounds is None else dict(bounds),
        states=None if states is None else [":".join(name.replace(":", r"\:") for name in pair) for pair in states.items()],
        auto_state=auto_state, donate=donate, cache_length=cache_length, position_masks=position_masks, sample=sample,
        devices=devices, tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel, weights=weights,
        variants=variants, matmuls=matmuls, deterministic=deterministic, annotations=annotations, break_before=break_before,
        external_data=external_data, synthetic_weights=synthetic_weights,
        live_weights=live_weights, library_path=library_path, threads=threads)
    options = {name: value for name, value in given.items() if value is not None}
    with tempfile.TemporaryDirectory(prefix="rondo-") as folder:
        sources = [(program, _path_of(program, source, folder), for_one[program]) for program, source in models.items()]
        path = None if output is None else os.fspath(output)
        plan = _rondo._compile(sources, options, progress, path, [os.fspath(library) for library in op_libraries])
    return plan if path is None else Plan.load(path)
