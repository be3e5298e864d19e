#include "drivers/cuda/launch_params.h"

namespace rondo::cuda {

namespace {

constexpr int kPromotion = 3;  // CU_TENSOR_MAP_L2_PROMOTION_L2_256B

// CU_TENSOR_MAP_DATA_TYPE_*
int TypeOf(DType dtype) { return dtype == DType::kF16 ? 6 : dtype == DType::kBF16 ? 9 : 7; }

// CU_TENSOR_MAP_SWIZZLE_*: none, 32, 64, 128 bytes.
int SwizzleOf(uint32_t bytes) { return bytes == 128 ? 3 : static_cast<int>(bytes / 32); }

Error Encode(const Api& api, const TensorMap& map, DeviceAddress address, EncodedMap* out) {
  constexpr uint32_t kEach[kMaxTensorMapRank] = {1, 1, 1, 1, 1};
  return api.encode_map(out, TypeOf(map.dtype), map.rank, reinterpret_cast<void*>(address + map.offset),
                        map.extents, map.strides, map.box, kEach, 0, SwizzleOf(map.swizzle), kPromotion, 0);
}

}  // namespace

Status LaunchParams::Build(const Api& api, Span<const DeviceAddress> addresses, Span<const TensorMap> maps,
                           FaultRecord* const& faults, const uint32_t& step) {
  size_t count = 0;
  for (const DeviceAddress& address : addresses) params_[count++] = const_cast<DeviceAddress*>(&address);
  for (size_t i = 0; i < maps.size(); ++i) {
    RONDO_RETURN_IF_ERROR(
        ToStatus(api, Encode(api, maps[i], addresses[maps[i].param], &maps_[i]), "encoding a tensor map")
            .At("step %u, map %zu, parameter %u", step, i, maps[i].param));
    params_[count++] = &maps_[i];
  }
  params_[count++] = const_cast<FaultRecord**>(&faults);
  params_[count] = const_cast<uint32_t*>(&step);
  return Status::Ok();
}

}  // namespace rondo::cuda
