"""Values of an ONNX model as ONNX Runtime computes them, for `rondo compare --onnxruntime`.

    onnxruntime_values.py FOLDER     FOLDER/request.json says which; they and FOLDER/answer.json are written there
"""
import json
import os
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as missing:
    sys.exit(f"{sys.executable} has no {missing.name}: --python names a Python with numpy, onnx and onnxruntime (tools/setup --venv makes build/venv)")

folder = sys.argv[1]
with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
    request = json.load(file)


def run():
    """The names of the values, and the values."""
    model = onnx.load(request["model"], load_external_data=False)
    computed = {name for node in model.graph.node for name in node.output}
    shown = {output.name for output in model.graph.output}
    wanted = [name for name in request["values"] if name in computed]
    for name in wanted:
        if name not in shown:
            model.graph.output.add(name=name)

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                     os.path.dirname(os.path.abspath(request["model"])))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {name: numpy.load(os.path.join(folder, file)) for name, file in request["inputs"].items()}
    for port in session.get_inputs():
        if port.name not in inputs:
            sys.exit(f'the plan has no value of the model\'s input "{port.name}": give it by --input')
    names = {port.name for port in session.get_inputs()}
    values = session.run(wanted, {name: value for name, value in inputs.items() if name in names}) if wanted else []
    return wanted, values


try:
    wanted, values = run()
except Exception as error:  # whatever onnx and ONNX Runtime say, in a line
    sys.exit(" ".join(str(error).split()))
answer = {}
for number, (name, value) in enumerate(zip(wanted, values)):
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "fiub":
        answer[name] = f"value{number}.npy"
        numpy.save(os.path.join(folder, answer[name]), numpy.ascontiguousarray(value))
with open(os.path.join(folder, "answer.json"), "w", encoding="utf-8") as file:
    json.dump({"version": onnxruntime.__version__, "values": answer}, file)
