// kSanitized: whether this program is built with the address or the thread sanitizer. Those replace the
// allocator, reserve terabytes of addresses, and end a process that allocates too much memory.
#pragma once

namespace rondo {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace rondo
