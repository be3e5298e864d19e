// Buckets in C++ (C++17 or later): a thin, header-only wrapper of rondo_buckets.h, in the manner of
// rondo.hpp.
//
//   rondo::Buckets buckets;  // declared after the session: destroyed before it
//   if (rondo::Error e = rondo::Buckets::Create(plan, session, &buckets)) ...
//   if (rondo::Error e = buckets.Run({rondo::In("ids", ids, {3, 20})}, {rondo::Out("scores", scores)})) ...
#ifndef RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_HPP_
#define RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_HPP_

#include "runtime/buckets/rondo_buckets.h"
#include "runtime/rondo.hpp"

namespace rondo {
inline namespace api {

class Buckets {
 public:
  Buckets() = default;
  Buckets(Buckets&& other) noexcept : buckets_(std::exchange(other.buckets_, nullptr)) {}
  Buckets& operator=(Buckets&& other) noexcept {
    std::swap(buckets_, other.buckets_);
    return *this;
  }
  ~Buckets() { rondo_buckets_destroy(buckets_); }

  static Error Create(const Plan& plan, const Session& session, Buckets* buckets,
                      const char* family = nullptr) {
    rondo_buckets* created = nullptr;
    Error error(rondo_buckets_create(plan.get(), session.get(), family, &created));
    if (!error) *buckets = Buckets(created);
    return error;
  }

  // For up to 32 tensors one way.
  Error Choose(span<const Tensor> inputs, uint32_t* program) const {
    const Views in(inputs);
    return Error(rondo_buckets_choose(buckets_, in.data, in.size, program));
  }
  // Sets `rank` and as many of `dims`, which has room for RONDO_PORT_DIMS.
  Error OutputShape(span<const Tensor> inputs, const char* name, uint32_t* rank, int64_t* dims) const {
    const Views in(inputs);
    return Error(rondo_buckets_output_shape(buckets_, in.data, in.size, name, rank, dims));
  }
  Error Run(span<const Tensor> inputs, span<const Tensor> outputs,
            const rondo_run_options* options = nullptr) {
    const Views in(inputs), out(outputs);
    return Error(rondo_buckets_run(buckets_, in.data, in.size, out.data, out.size, options));
  }
  Error Run(std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs,
            const rondo_run_options* options = nullptr) {
    return Run(span(inputs.begin(), inputs.size()), span(outputs.begin(), outputs.size()), options);
  }
  // Of several callers: see rondo_buckets_run_together.
  Error RunTogether(const char* length, span<const rondo_buckets_part> parts,
                    const rondo_run_options* options = nullptr) {
    return Error(rondo_buckets_run_together(buckets_, length, parts.data(), parts.size(), options));
  }
  rondo_buckets* get() const { return buckets_; }

 private:
  explicit Buckets(rondo_buckets* buckets) : buckets_(buckets) {}
  // The C views; of more tensors than there is room for, a count without an array, which is refused.
  struct Views {
    explicit Views(span<const Tensor> tensors) : data(room), size(tensors.size()) {
      if (size > sizeof room / sizeof *room) data = nullptr;
      for (size_t i = 0; data != nullptr && i < size; ++i) room[i] = tensors[i].view();
    }
    rondo_tensor room[32];
    const rondo_tensor* data;
    size_t size;
  };
  rondo_buckets* buckets_ = nullptr;
};

}  // namespace api
}  // namespace rondo

#endif  // RONDO_RUNTIME_BUCKETS_RONDO_BUCKETS_HPP_
