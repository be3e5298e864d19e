// LSTM, GRU and RNN. The input's part of every gate is one matmul for all steps, and each step adds the
// state's part. Long sequences become a loop over the steps for all directions at once; short ones are
// unrolled.
#include <cmath>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"
#include "compiler/ir/loop.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr int64_t kMaxSteps = 1 << 16, kMaxUnrolled = 4096;

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// The parameters that all three cells share.
struct Recurrent {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  bool backward_first = false;  // direction "reverse"
  double clip = 0;
  std::vector<Activation> activations;  // those of the first direction, then the second
  NodeId x = kNoNode;                   // [steps, batch, input]
  NodeId lengths = kNoNode;             // [batch, 1] i64; kNoNode if every row has all steps
  bool rounds = false;                  // rounds inputs and states to 8 bits before each matmul
};

double DefaultAlpha(const std::string& name) {
  if (name == "LeakyRelu") return 0.01;
  if (name == "HardSigmoid") return 0.2;
  return name == "Elu" || name == "ThresholdedRelu" || name == "ScaledTanh" || name == "Affine" ? 1 : 0;
}
double DefaultBeta(const std::string& name) {
  if (name == "HardSigmoid") return 0.5;
  return name == "ScaledTanh" ? 1 : 0;
}

NodeId Activate(Builder& b, const Activation& f, NodeId x) {
  NodeId zero = b.Scalar(b.dtype(x), 0);
  auto scaled = [&](NodeId v, double s) { return b.BinaryScalar(TapeOp::kMul, v, s); };
  if (f.name == "Sigmoid") return Sigmoid(b, x);
  if (f.name == "Tanh") return b.Unary(TapeOp::kTanh, x);
  if (f.name == "Relu") return Relu(b, x);
  if (f.name == "Softplus") return Softplus(b, x);
  if (f.name == "Affine") return b.BinaryScalar(TapeOp::kAdd, scaled(x, f.alpha), f.beta);
  if (f.name == "ScaledTanh") return scaled(b.Unary(TapeOp::kTanh, scaled(x, f.beta)), f.alpha);
  if (f.name == "HardSigmoid") {
    return Clamp(b, b.BinaryScalar(TapeOp::kAdd, scaled(x, f.alpha), f.beta), 0, 1);
  }
  if (f.name == "Softsign") return b.Div(x, b.BinaryScalar(TapeOp::kAdd, b.Unary(TapeOp::kAbs, x), 1));
  NodeId below = b.Binary(TapeOp::kLess, x, zero);
  if (f.name == "LeakyRelu") return b.Select(below, scaled(x, f.alpha), x);
  if (f.name == "Elu") return b.Select(below, scaled(b.Unary(TapeOp::kExpm1, x), f.alpha), x);
  return kNoNode;
}

Status ReadActivations(OpContext& c, std::vector<const char*> defaults, Recurrent* r) {
  std::vector<std::string> names = c.Strings("activations");
  size_t each = defaults.size(), count = each * static_cast<size_t>(r->directions);
  if (names.empty()) {
    for (size_t i = 0; i < count; ++i) names.push_back(defaults[i % each]);
  }
  if (names.size() != count) {
    return Status::Error(Code::kCorrupt, "%zu activations; %zu are needed", names.size(), count);
  }
  std::vector<float> alphas = c.Floats("activation_alpha"), betas = c.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;  // the lists only hold entries for functions that take them
  static const std::string kKnown[] = {"Sigmoid",  "Tanh",       "Relu",        "Softplus",  "Affine",
                                       "Softsign", "ScaledTanh", "HardSigmoid", "LeakyRelu", "Elu"};
  for (const std::string& name : names) {
    bool known = false;
    for (const std::string& k : kKnown) known |= k == name;
    if (!known) return Status::Error(Code::kUnsupported, "activation \"%.30s\"", name.c_str());
    Activation f{name, DefaultAlpha(name), DefaultBeta(name)};
    bool takes_beta = name == "Affine" || name == "ScaledTanh" || name == "HardSigmoid";
    bool takes_alpha = takes_beta || name == "LeakyRelu" || name == "Elu";
    if (takes_alpha && next_alpha < alphas.size()) f.alpha = alphas[next_alpha++];
    if (takes_beta && next_beta < betas.size()) f.beta = betas[next_beta++];
    r->activations.push_back(f);
  }
  return Status::Ok();
}

Status RequireShape(OpContext& c, int i, const Shape& shape) {
  if (c.Has(i) && !(c.shape(i) == shape)) {
    return Status::Error(Code::kCorrupt, "input %d has shape %s; %s is needed", i, Text(c.shape(i)).c_str(),
                         Text(shape).c_str());
  }
  return Status::Ok();
}

Result<Recurrent> ReadRecurrent(OpContext& c, int64_t gates, std::vector<const char*> defaults,
                                bool has_cell) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  for (int i = 0; i < 3; ++i) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, 3, 3));
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  }
  Recurrent r;
  r.gates = gates;
  bool batch_first = c.Int("layout", 0) != 0;
  r.x = batch_first ? c.b.Transpose(c.In(0), {1, 0, 2}) : c.In(0);
  const Shape x = c.b.shape(r.x);
  r.steps = x[0];
  r.batch = x[1];
  r.input = x[2];
  std::string direction = c.String("direction", "forward");
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.backward_first = direction == "reverse";
  r.hidden = c.shape(2)[2];
  r.clip = c.Float("clip", 0);
  if (x.elements() == 0 || r.hidden < 1 || r.hidden > int64_t{1} << 32 || r.steps > kMaxSteps) {
    return Status::Error(Code::kUnsupported, "%lld steps of shape %s; the limit is %lld steps",
                         static_cast<long long>(r.steps), Text(x).c_str(), static_cast<long long>(kMaxSteps));
  }
  RONDO_RETURN_IF_ERROR(RequireShape(c, 1, {r.directions, gates * r.hidden, r.input}));
  RONDO_RETURN_IF_ERROR(RequireShape(c, 2, {r.directions, gates * r.hidden, r.hidden}));
  RONDO_RETURN_IF_ERROR(RequireShape(c, 3, {r.directions, 2 * gates * r.hidden}));
  RONDO_RETURN_IF_ERROR(RequireShape(c, 4, {r.batch}));
  Shape state = batch_first ? Shape{r.batch, r.directions, r.hidden} : Shape{r.directions, r.batch, r.hidden};
  RONDO_RETURN_IF_ERROR(RequireShape(c, 5, state));
  if (has_cell) {
    RONDO_RETURN_IF_ERROR(RequireShape(c, 6, state));
    RONDO_RETURN_IF_ERROR(RequireShape(c, 7, {r.directions, 3 * r.hidden}));
  }
  for (int i : {3, 5, 6, 7}) {
    if (c.Has(i)) RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  }
  RONDO_RETURN_IF_ERROR(ReadActivations(c, std::move(defaults), &r));
  if (c.Has(4)) {
    RONDO_RETURN_IF_ERROR(c.RequireInteger(4));
    auto lengths = c.ConstantInts(4);
    bool full = lengths.ok();
    for (size_t i = 0; full && i < lengths->size(); ++i) full = (*lengths)[i] == r.steps;
    if (!full) r.lengths = c.b.Reshape(c.b.Cast(c.In(4), DType::kI64), {r.batch, 1});
  }
  return r;
}

// The weights of one direction and the running state.
struct Cell {
  const Recurrent& r;
  Builder& b;
  int64_t direction = 0;
  NodeId from_input = kNoNode;         // [steps, batch, gates * hidden], biases added
  NodeId recurrence = kNoNode;         // [hidden, gates * hidden]
  NodeId state_bias = kNoNode;         // [gates * hidden] of the recurrence; kNoNode if added already
  NodeId h = kNoNode, cell = kNoNode;  // [batch, hidden]
  NodeId peepholes = kNoNode;          // [3 * hidden]
  NodeId row = kNoNode;                // in a loop: this step's row of from_input
  NodeId counts = kNoNode;             // bool [batch, 1]: rows whose states give the rounding range

  NodeId Gate(NodeId gates, int64_t index) const {
    return b.Slice(gates, b.shape(gates).rank - 1, index * r.hidden, 1, r.hidden);
  }
  const Activation& Function(int64_t index) const {
    int64_t each = static_cast<int64_t>(r.activations.size()) / r.directions;
    return r.activations[static_cast<size_t>(direction * each + index)];
  }
  NodeId Apply(int64_t function, NodeId x) const {
    if (r.clip > 0) x = Clamp(b, x, -r.clip, r.clip);
    return Activate(b, Function(function), x);
  }
  NodeId InputAt(int64_t t) const {
    if (row != kNoNode) return row;
    return b.Reshape(b.Slice(from_input, 0, t, 1, 1), {r.batch, r.gates * r.hidden});
  }
};

NodeId Direction(Builder& b, NodeId x, int axis, int64_t direction) {
  return b.Squeeze(b.Slice(x, axis, direction, 1, 1), axis);
}

// `separate`: keeps the recurrence's biases apart.
Cell MakeCell(OpContext& c, const Recurrent& r, int64_t direction, bool separate) {
  Builder& b = c.b;
  Cell cell{r, b};
  cell.direction = direction;
  int64_t width = r.gates * r.hidden;
  cell.recurrence = b.Transpose(Direction(b, c.In(2), 0, direction), {1, 0});
  cell.from_input = b.MatMul(r.x, b.Transpose(Direction(b, c.In(1), 0, direction), {1, 0}));
  if (c.Has(3)) {
    NodeId bias = Direction(b, c.In(3), 0, direction);
    NodeId own = b.Slice(bias, 0, 0, 1, width), state = b.Slice(bias, 0, width, 1, width);
    cell.from_input = b.Add(cell.from_input, separate ? own : b.Add(own, state));
    if (separate) cell.state_bias = state;
  }
  int axis = c.Int("layout", 0) != 0 ? 1 : 0;
  NodeId zero = b.Expand(b.Scalar(c.dtype(0), 0), {r.batch, r.hidden});
  cell.h = c.Has(5) ? Direction(b, c.In(5), axis, direction) : zero;
  cell.cell = zero;
  return cell;
}

void StepRnn(Cell* s, int64_t t) {
  Builder& b = s->b;
  s->h = s->Apply(0, b.Add(s->InputAt(t), b.MatMul(s->h, s->recurrence)));
}

// Gates z, r, h. With linear_before_reset the reset gate scales the state's part after its matmul.
template <bool kLinearBeforeReset>
void StepGru(Cell* s, int64_t t) {
  Builder& b = s->b;
  int64_t n = s->r.hidden;
  NodeId x = s->InputAt(t);
  auto part = [&](int64_t gate, NodeId state) {
    NodeId product = b.MatMul(state, b.Slice(s->recurrence, 1, gate * n, 1, n));
    return s->state_bias == kNoNode ? product : b.Add(product, s->Gate(s->state_bias, gate));
  };
  NodeId z = s->Apply(0, b.Add(s->Gate(x, 0), part(0, s->h)));
  NodeId reset = s->Apply(0, b.Add(s->Gate(x, 1), part(1, s->h)));
  NodeId inner = kLinearBeforeReset ? b.Mul(reset, part(2, s->h)) : part(2, b.Mul(reset, s->h));
  NodeId candidate = s->Apply(1, b.Add(s->Gate(x, 2), inner));
  // (1 - z) * candidate + z * h
  s->h = b.Add(b.Mul(b.Sub(b.Scalar(b.dtype(z), 1), z), candidate), b.Mul(z, s->h));
}

// x as DynamicQuantizeLSTM uses it: rounded to 8 bits over the range of all its values.
NodeId Rounded(Builder& b, NodeId x) {
  const DynamicallyQuantised q = QuantiseDynamically(b, x);
  return b.Mul(b.Sub(b.Cast(q.numbers, DType::kF32), b.Cast(q.zero, DType::kF32)), q.scale);
}

// Gates i, o, f, c; peepholes i, o, f.
template <bool kCoupled>
void StepLstm(Cell* s, int64_t t) {
  Builder& b = s->b;
  NodeId h = s->h;
  if (s->r.rounds && s->counts != kNoNode) h = b.Select(s->counts, h, b.Scalar(b.dtype(h), 0));
  if (s->r.rounds) h = Rounded(b, h);
  NodeId gates = b.Add(s->InputAt(t), b.MatMul(h, s->recurrence));
  auto gate = [&](int64_t index, NodeId cell) {
    NodeId g = s->Gate(gates, index);
    if (s->peepholes == kNoNode) return g;
    return b.Add(g, b.Mul(s->Gate(s->peepholes, index), cell));
  };
  NodeId i = s->Apply(0, gate(0, s->cell));
  NodeId f = kCoupled ? b.Sub(b.Scalar(b.dtype(i), 1), i) : s->Apply(0, gate(2, s->cell));
  NodeId candidate = s->Apply(1, s->Gate(gates, 3));
  s->cell = b.Add(b.Mul(f, s->cell), b.Mul(i, candidate));
  NodeId o = s->Apply(0, gate(1, s->cell));
  s->h = b.Mul(o, Activate(b, s->Function(2), s->cell));
}

using StepFunction = void (*)(Cell*, int64_t);

// Computes one step and returns its output. `now` is its time as a node.
NodeId Advance(Cell* s, StepFunction step, int64_t t, NodeId now) {
  Builder& b = s->b;
  const Recurrent& r = s->r;
  NodeId h = s->h, cell = s->cell;
  // Live rows, and each row for one step longer, as ONNX Runtime does for the forward direction.
  if (r.lengths != kNoNode && r.rounds) s->counts = b.Binary(TapeOp::kLessEqual, now, r.lengths);
  step(s, t);
  if (r.lengths == kNoNode) return s->h;
  // A row past its length keeps its state, and its output is 0.
  NodeId live = b.Binary(TapeOp::kLess, now, r.lengths);
  NodeId shown = b.Select(live, s->h, b.Scalar(b.dtype(s->h), 0));
  s->h = b.Select(live, s->h, h);
  s->cell = b.Select(live, s->cell, cell);
  return shown;
}

// Runs one direction and returns its outputs in time order, [steps, 1, batch, hidden].
NodeId Unroll(Cell* s, StepFunction step, bool backward) {
  Builder& b = s->b;
  const Recurrent& r = s->r;
  std::vector<NodeId> outputs(static_cast<size_t>(r.steps));
  for (int64_t i = 0; i < r.steps; ++i) {
    int64_t t = backward ? r.steps - 1 - i : i;
    NodeId shown = Advance(s, step, t, r.lengths == kNoNode ? kNoNode : b.Ints(DType::kI64, {1, 1}, {t}));
    outputs[static_cast<size_t>(t)] = b.Reshape(shown, {1, 1, r.batch, r.hidden});
  }
  return b.Concat(outputs, 0);
}

bool IsBackward(const Recurrent& r, size_t direction) { return direction == 1 || r.backward_first; }

// Runs all directions in one loop. Sets `all` as Unroll returns it, if wanted. False if they must be
// unrolled.
bool RunLoop(std::vector<Cell>* cells, StepFunction step, bool has_cell, bool wants_all,
             std::vector<NodeId>* all) {
  const Recurrent& r = cells->front().r;
  Builder& b = cells->front().b;
  const NodeId times = r.lengths == kNoNode ? kNoNode : b.Iota({r.steps, 1, 1}, 0);
  std::vector<NodeId> next, last, given;
  for (const Cell& cell : *cells) {
    given.push_back(cell.h);
    given.push_back(cell.cell);
  }
  std::vector<ir::LoopMaker::Rows> rows;
  ir::LoopMaker maker(&b, r.steps);
  for (size_t d = 0; d < cells->size(); ++d) {
    Cell& cell = (*cells)[d];
    const bool backward = IsBackward(r, d);
    cell.row = maker.Row(cell.from_input, backward);
    cell.h = maker.Carried(cell.h);
    if (has_cell) cell.cell = maker.Carried(cell.cell);
    const NodeId shown = Advance(&cell, step, 0, times == kNoNode ? kNoNode : maker.Row(times, backward));
    if (wants_all) rows.push_back({shown, backward});
    next.push_back(cell.h);
    if (has_cell) next.push_back(cell.cell);
  }
  const bool made = maker.Finish(next, rows, &last, all);
  for (NodeId& y : *all) y = b.Unsqueeze(y, 1);
  for (size_t d = 0; d < cells->size(); ++d) {
    Cell& cell = (*cells)[d];
    cell.row = kNoNode;
    cell.h = made ? last[has_cell ? 2 * d : d] : given[2 * d];
    cell.cell = made && has_cell ? last[2 * d + 1] : given[2 * d + 1];
  }
  return made;
}

// Runs all directions and sets the three outputs: Y, the last state, the last cell.
Status RunAll(OpContext& c, const Recurrent& r, StepFunction step, bool separate, bool has_cell) {
  Builder& b = c.b;
  bool batch_first = c.Int("layout", 0) != 0;
  int state_axis = batch_first ? 1 : 0;
  std::vector<Cell> cells;
  for (int64_t d = 0; d < r.directions; ++d) {
    cells.push_back(MakeCell(c, r, d, separate));
    if (has_cell && c.Has(6)) cells.back().cell = Direction(b, c.In(6), state_axis, d);
    if (has_cell && c.Has(7)) cells.back().peepholes = Direction(b, c.In(7), 0, d);
  }
  std::vector<NodeId> all, last, last_cells;
  if (r.steps <= c.host.longest_unrolled() || !RunLoop(&cells, step, has_cell, c.Wants(0), &all)) {
    if (r.steps * r.directions > kMaxUnrolled) {
      return Status::Error(Code::kUnsupported, "%lld steps that cannot be a loop; the limit is %lld",
                           static_cast<long long>(r.steps), static_cast<long long>(kMaxUnrolled));
    }
    for (size_t d = 0; d < cells.size(); ++d) all.push_back(Unroll(&cells[d], step, IsBackward(r, d)));
  }
  if (c.Wants(0)) {
    NodeId y = b.Concat(all, 1);  // [steps, directions, batch, hidden]
    c.Set(0, batch_first ? b.Transpose(y, {2, 0, 1, 3}) : y);
  }
  for (const Cell& cell : cells) {
    last.push_back(b.Unsqueeze(cell.h, state_axis));
    last_cells.push_back(b.Unsqueeze(cell.cell, state_axis));
  }
  c.Set(1, b.Concat(last, state_axis));
  if (has_cell) c.Set(2, b.Concat(last_cells, state_axis));
  return Status::Ok();
}

// The input, with 0 in steps that no row of the batch has, so that those do not extend the range of values.
NodeId StepsThatCount(Builder& b, const Recurrent& r) {
  if (r.lengths == kNoNode) return r.x;
  const NodeId longest = b.Reduce(ir::ReduceKind::kMax, r.lengths, {0, 1}, false);
  const NodeId counts = b.Binary(TapeOp::kLess, b.Iota({r.steps, 1, 1}, 0), longest);
  return b.Select(counts, r.x, b.Scalar(b.dtype(r.x), 0));
}

Status Rnn(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(Recurrent r, ReadRecurrent(c, 1, {"Tanh"}, false));
  return RunAll(c, r, StepRnn, false, false);
}

Status Gru(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(Recurrent r, ReadRecurrent(c, 3, {"Sigmoid", "Tanh"}, false));
  bool linear = c.Int("linear_before_reset", 0) != 0;
  return RunAll(c, r, linear ? StepGru<true> : StepGru<false>, true, false);
}

Status Lstm(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(Recurrent r, ReadRecurrent(c, 4, {"Sigmoid", "Tanh", "Tanh"}, true));
  r.rounds = c.proto.op_type() == "DynamicQuantizeLSTM";  // its weights are floats by now
  if (r.rounds && c.dtype(0) != DType::kF32)
    return Status::Error(Code::kUnsupported, "inputs of type %s; f32 is needed", Name(c.dtype(0)));
  if (r.rounds) r.x = Rounded(c.b, StepsThatCount(c.b, r));
  return RunAll(c, r, c.Int("input_forget", 0) != 0 ? StepLstm<true> : StepLstm<false>, false, true);
}

constexpr OpRow kOps[] = {
    {"RNN", 3, Rnn},
    {"GRU", 3, Gru},
    {"LSTM", 3, Lstm},
};

}  // namespace

Span<const OpRow> RecurrentOps() { return kOps; }

}  // namespace rondo::importer
