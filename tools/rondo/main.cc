// The rondo command: the table of its subcommands. A build without the compiler leaves out those that
// compile.
#include <csignal>

#include "tools/rondo/commands.h"
#include "tools/rondo/gpu_environment.h"
#include "tools/rondo/options.h"

int main(int argc, char** argv) {
  const std::vector<rondo::tools::CommandEntry> commands = {
#if RONDO_HAVE_COMPILER
    {"compile", "Compile ONNX models into one plan",
     "  rondo compile model.onnx -o model.rondo\n"
     "  rondo compile prefill=prefill64.onnx decode=decode.onnx -o pycoder.rondo\n"
     "  rondo compile model.onnx --devices 4 -o model.rondo\n"
     "  rondo compile model.onnx --tp 4 -o model.rondo\n"
     "  rondo compile model.onnx -o model.rondo --shape batch=4 --shape tokens=1x128\n"
     "  rondo compile llama.onnx -o llama.rondo --synthetic-weights 1\n"
     "  rondo compile model.onnx -o model.rondo --target cuda:sm_90a --precision bf16\n"
     "  rondo compile model.onnx -o model.rondo --dump-after fuse\n",
     rondo::tools::MakeCompileCommand},
#endif
    {"inspect", "Show what a plan holds and needs",
     "  rondo inspect model.rondo\n"
     "  rondo inspect model.rondo --steps --buffers\n"
     "  rondo inspect model.rondo --json | jq .requirements\n"
     "  rondo inspect model.rondo --html model.html\n",
     rondo::tools::MakeInspectCommand},
    {"run", "Run one program of a plan on tensors in files",
     "  rondo run model.rondo --input x=x.npy --output out\n"
     "  rondo run pycoder.rondo --program decode --input tokens=t.npy --input positions=p.npy --output "
     "out\n"
     "  mpirun -np 2 rondo run model.rondo --input x=x.npy --output out\n"
     "  rondo run model.rondo --verify\n",
     rondo::tools::MakeRunCommand},
    {"generate", "Let a language model continue texts",
     "  rondo compile prefill=prefill64.onnx decode=decode.onnx -o pycoder.rondo --sample logits\n"
     "  rondo generate pycoder.rondo --prompt 'import os' --max-tokens 100\n"
     "  rondo generate pycoder.rondo --prompt-file p.txt --temperature 0.8 --top-k 40 --top-p 0.95 --seed 7\n"
     "  rondo generate pycoder.rondo --prefix-file p.txt --prompt 'class' --prompt 'def'\n"
     "  rondo generate pycoder.rondo --prompt-lines questions.txt --no-echo --stop-text 'def ' --json\n"
     "  rondo generate llama.rondo --ids --prompt '128000 9906' --stop 128001 --driver cuda\n",
     rondo::tools::MakeGenerateCommand},
#if RONDO_HAVE_SERVER
    {"serve", "Serve the plans of a folder over HTTP",
     "  rondo serve models\n"
     "  rondo serve models --port 8080 --sessions 2 --batch-delay 1\n"
     "  rondo serve models --listen 0.0.0.0 --queue 64 --answer-within 5\n"
     "  rondo serve models --key release.key.pub\n",
     rondo::tools::MakeServeCommand},
#endif
    {"bench", "Measure how long a program takes, and each of its steps",
     "  rondo bench model.rondo\n"
     "  rondo bench model.rondo --driver cuda --trace trace.json\n"
     "  rondo bench pycoder.rondo --program decode --runs 200 --threads 1\n",
     rondo::tools::MakeBenchCommand},
    {"compare", "Find where a plan's values first differ from a model's or another plan's",
     "  rondo compare model.onnx model.rondo\n"
     "  rondo compare model.onnx model.rondo --bisect --input x=x.npy\n"
     "  rondo compare model.onnx model.rondo --onnxruntime --python build/venv/bin/python\n"
     "  rondo compare f32.rondo bf16.rondo --all\n"
     "  rondo compare model.rondo model.rondo --driver cuda --reference-driver host\n",
     rondo::tools::MakeCompareCommand},
    {"flight", "Show what a run that hangs or has failed was doing",
     "  rondo run model.rondo --flight flight.bin --input x=x.npy --output out\n"
     "  rondo flight flight.bin\n"
     "  rondo flight flight.bin --last 50\n",
     rondo::tools::MakeFlightCommand},
    {"check", "Verify a plan and prove its memory again",
     "  rondo check model.rondo\n"
     "  rondo check model.rondo --kernels\n"
     "  rondo check model.rondo --write-expect memory.json\n"
     "  rondo check model.rondo --expect memory.json\n"
     "  rondo check damaged.rondo --ignore-hashes\n",
     rondo::tools::MakeCheckCommand},
    {"sign", "Sign a plan, so that others can check who made it",
     "  rondo sign --new-key release.key\n"
     "  rondo sign model.rondo --key release.key\n"
     "  rondo run model.rondo --key release.key.pub --input x=x.npy --output out\n"
     "  rondo check model.rondo --key release.key.pub\n",
     rondo::tools::MakeSignCommand},
#if RONDO_HAVE_COMPILER
    {"weights", "List the weights of a plan, or give it others",
     "  rondo compile model.onnx -o model.rondo --live-weights\n"
     "  rondo weights list model.rondo\n"
     "  rondo weights replace model.rondo tuned.safetensors -o tuned.rondo\n"
     "  rondo weights replace model.rondo tuned.onnx -o tuned.rondo\n",
     rondo::tools::MakeWeightsCommand},
    {"test", "Compile models, run them on stored inputs and compare with stored outputs",
     "  rondo test tests/data/fixtures/*\n"
     "  rondo test --model decode.onnx decode.test\n"
     "  rondo test --rtol 1e-2 --atol 1e-4 my_case\n",
     rondo::tools::MakeTestCommand},
    {"ops", "List the operators, opsets and types that this build compiles",
     "  rondo ops\n"
     "  rondo ops Attention GroupQueryAttention\n"
     "  rondo ops --json | jq -r '.operators[].operator'\n",
     rondo::tools::MakeOpsCommand},
    {"pack", "Run the memory planner alone on buffers from a CSV file",
     "  rondo pack buffers.csv --capacity 1048576\n"
     "  rondo pack buffers.csv --capacity 1048576 --alignment 64 -o offsets.csv\n"
     "  rondo pack buffers.csv --capacity 1048576 --seconds 60\n",
     rondo::tools::MakePackCommand},
    {"tune", "Measure other ways to compute a plan's kernels, for compile --profile",
     "  rondo compile model.onnx -o model.rondo --target cuda:sm_90a --alternatives 6\n"
     "  rondo tune model.rondo -o h200.json\n"
     "  rondo tune other.rondo -o h200.json --merge\n"
     "  rondo compile model.onnx -o model.rondo --target cuda:sm_90a --profile h200.json\n",
     rondo::tools::MakeTuneCommand},
    {"profile", "Measure how long a plan's kernels and collectives take, for compile --profile",
     "  rondo profile model.rondo -o h200.json\n"
     "  rondo profile model.rondo -o h200.json --input positions=positions.npy --devices 0,1\n"
     "  rondo profile other.rondo -o h200.json --merge\n"
     "  rondo profile eight.rondo -o h200.json --merge --alone --devices 0,0,0,0,0,0,0,0\n"
     "  rondo compile model.onnx -o model.rondo --target cuda:sm_90a --profile h200.json\n"
     "  rondo inspect model.rondo --profile h200.json\n",
     rondo::tools::MakeProfileCommand},
#endif
  };
  rondo::tools::BeginGpuEnvironment();
  std::signal(SIGXFSZ, SIG_IGN);  // makes exceeding the file size limit an error of the write
  return rondo::tools::RunCommandLine(commands, argc, argv);
}
