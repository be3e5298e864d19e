#include "drivers/cuda/synthetic_fill.h"

#include <algorithm>

#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t kBlock = 256, kMostBlocks = 8192;

// For each element i of its thread: x = key + i * odd constant through fmix64; u = (x >> 48) - 2^15; then u *
// 2^-15 * scale, rounded to the element type. `dtype` is DType's number: 0 f32, 1 f16, 2 bf16, 3 f64. 8 is
// u8, which takes the highest bits of x, as many as SyntheticBits states.
constexpr char kText[] = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry rondo_synthetic(.param .u64 to, .param .u64 count, .param .u64 key, .param .f32 scale,
                                .param .u32 dtype)
{
  .reg .pred %p, %f16, %bf16, %f64, %u8;
  .reg .b16 %h;
  .reg .b32 %a, %b, %c, %d, %bits;
  .reg .f32 %scale, %v;
  .reg .f64 %w;
  .reg .b64 %to, %count, %key, %i, %t, %stride, %x, %y;
  ld.param.u64 %to, [to];
  ld.param.u64 %count, [count];
  ld.param.u64 %key, [key];
  ld.param.f32 %scale, [scale];
  ld.param.u32 %d, [dtype];
  setp.eq.f32 %p, %scale, 0f3f800000;
  cvt.rzi.u32.f32 %bits, %scale;
  min.u32 %bits, %bits, 255;
  @%p mov.u32 %bits, 255;
  cvta.to.global.u64 %to, %to;
  setp.eq.u32 %f16, %d, 1;
  setp.eq.u32 %bf16, %d, 2;
  setp.eq.u32 %f64, %d, 3;
  setp.eq.u32 %u8, %d, 8;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ntid.x;
  mul.wide.u32 %i, %a, %b;
  mov.u32 %c, %tid.x;
  cvt.u64.u32 %t, %c;
  add.u64 %i, %i, %t;
  mov.u32 %a, %nctaid.x;
  mul.wide.u32 %stride, %a, %b;
next:
  setp.ge.u64 %p, %i, %count;
  @%p bra end;
  mul.lo.u64 %x, %i, 0x9e3779b97f4a7c15;
  add.u64 %x, %x, %key;
  shr.u64 %y, %x, 33;
  xor.b64 %x, %x, %y;
  mul.lo.u64 %x, %x, 0xff51afd7ed558ccd;
  shr.u64 %y, %x, 33;
  xor.b64 %x, %x, %y;
  mul.lo.u64 %x, %x, 0xc4ceb9fe1a85ec53;
  shr.u64 %y, %x, 33;
  xor.b64 %x, %x, %y;
  shr.u64 %x, %x, 48;
  cvt.u32.u64 %a, %x;
  @%u8 bra byte;
  sub.s32 %a, %a, 32768;
  cvt.rn.f32.s32 %v, %a;
  mul.rn.f32 %v, %v, 0f38000000;
  mul.rn.f32 %v, %v, %scale;
  @%f16 bra half;
  @%bf16 bra brain;
  @%f64 bra double;
  shl.b64 %y, %i, 2;
  add.u64 %y, %y, %to;
  st.global.f32 [%y], %v;
  bra step;
half:
  cvt.rn.f16.f32 %h, %v;
  bra two;
brain:
  cvt.rn.bf16.f32 %h, %v;
two:
  shl.b64 %y, %i, 1;
  add.u64 %y, %y, %to;
  st.global.b16 [%y], %h;
  bra step;
byte:
  shr.u32 %a, %a, 8;
  and.b32 %a, %a, %bits;
  add.u64 %y, %i, %to;
  st.global.u8 [%y], %a;
  bra step;
double:
  cvt.f64.f32 %w, %v;
  shl.b64 %y, %i, 3;
  add.u64 %y, %y, %to;
  st.global.f64 [%y], %w;
step:
  add.u64 %i, %i, %stride;
  bra next;
end:
  ret;
}
)";

constexpr bool IsMade(DType dtype, float scale) {
  return (dtype == DType::kU8 && scale != 0) || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16 || dtype == DType::kF64;
}

}  // namespace

Status SyntheticFill::Load() {
  if (function_ != nullptr || !failed_.ok()) return failed_;
  const Api& api = device_.api();
  failed_ = device_.LoadCode(&module_, kText, "compiling the kernel of synthetic weights");
  if (failed_.ok()) {
    failed_ = device_.Check(api.module_function(&function_, module_, "rondo_synthetic"), "rondo_synthetic");
  }
  return failed_;
}

void SyntheticFill::Unload() {
  if (module_ == nullptr) return;
  CudaDevice::Use use(device_);
  device_.api().module_unload(module_);
}

Status SyntheticFill::Enqueue(Address to, DType dtype, uint64_t elements, uint64_t key, float scale,
                              StreamHandle stream) {
  if (elements == 0) return Status::Ok();
  const Api& api = device_.api();
  CudaDevice::Use use(device_);
  if (!IsMade(dtype, scale)) {
    return device_.Check(api.fill(to, 0, elements * static_cast<uint64_t>(ByteSize(dtype)), stream),
                         "filling device memory");
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    RONDO_RETURN_IF_ERROR(Load());
  }
  uint32_t number = static_cast<uint32_t>(dtype);
  void* params[] = {&to, &elements, &key, &scale, &number};
  LaunchConfig config;
  config.grid[0] = static_cast<uint32_t>(std::min<uint64_t>((elements + kBlock - 1) / kBlock, kMostBlocks));
  config.block[0] = kBlock;
  config.stream = stream;
  return device_.Check(api.launch(&config, function_, params, nullptr), "launching a kernel");
}

}  // namespace rondo::cuda
