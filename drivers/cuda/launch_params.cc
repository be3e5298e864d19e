#include "drivers/cuda/launch_params.h"

#include "drivers/cuda/cuda_constants.h"

namespace rondo::cuda {

namespace {

int TypeOf(DType dtype) {
  return dtype == DType::kF16 ? kMapF16 : dtype == DType::kBF16 ? kMapBF16 : kMapF32;
}

int SwizzleOf(uint32_t bytes) {
  return bytes == 128 ? kSwizzle128 : bytes == 64 ? kSwizzle64 : bytes == 32 ? kSwizzle32 : kNoSwizzle;
}

Error Encode(const Api& api, const TensorMap& map, DeviceAddress address, EncodedMap* out) {
  constexpr uint32_t kEach[kMaxTensorMapRank] = {1, 1, 1, 1, 1};
  return api.encode_map(out, TypeOf(map.dtype), map.rank, reinterpret_cast<void*>(address + map.offset),
                        map.extents, map.strides, map.box, kEach, kNoInterleave, SwizzleOf(map.swizzle),
                        kPromoteToL2_256, kFillZeros);
}

}  // namespace

Status LaunchParams::Build(const Api& api, Span<const DeviceAddress> addresses, Span<const TensorMap> maps,
                           FaultRecord* const& faults, const uint32_t& step) {
  size_t count = 0;
  for (const DeviceAddress& address : addresses) params_[count++] = const_cast<DeviceAddress*>(&address);
  for (size_t i = 0; i < maps.size(); ++i) {
    RONDO_RETURN_IF_ERROR(
        ToStatus(api, Encode(api, maps[i], addresses[maps[i].param], &maps_[i]), "encoding a tensor map")
            .At("map %zu, parameter %u", i, maps[i].param));
    params_[count++] = &maps_[i];
  }
  params_[count++] = const_cast<FaultRecord**>(&faults);
  params_[count] = const_cast<uint32_t*>(&step);
  return Status::Ok();
}

}  // namespace rondo::cuda
