#include "core/arena.h"

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace rondo {

struct Arena::Block {
  Block* next;
  size_t bytes;  // whole block, header included
  size_t used;   // from the block's start
};

namespace {

constexpr size_t kBlockBytes = 16 << 10;
constexpr size_t kBlockAlignment = 64;

void* SystemAllocate(void*, size_t bytes, size_t alignment) {
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return nullptr;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void SystemDeallocate(void*, void* block, size_t) { std::free(block); }

constexpr HostAllocator kSystem = {SystemAllocate, SystemDeallocate, nullptr};

}  // namespace

const HostAllocator& DefaultHostAllocator() { return kSystem; }

Arena::Arena(Arena&& other) noexcept
    : allocator_(other.allocator_),
      limit_(other.limit_),
      head_(std::exchange(other.head_, nullptr)),
      total_(std::exchange(other.total_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    FreeAll();
    allocator_ = other.allocator_;
    limit_ = other.limit_;
    head_ = std::exchange(other.head_, nullptr);
    total_ = std::exchange(other.total_, 0);
  }
  return *this;
}

Arena::~Arena() { FreeAll(); }

void Arena::FreeAll() {
  while (head_ != nullptr) {
    Block* next = head_->next;
    allocator_.deallocate(allocator_.user, head_, head_->bytes);
    head_ = next;
  }
}

void* Arena::Allocate(size_t bytes, size_t alignment) {
  if (head_ != nullptr) {
    uintptr_t base = reinterpret_cast<uintptr_t>(head_);
    uintptr_t start = (base + head_->used + alignment - 1) & ~(uintptr_t{alignment} - 1);
    if (start - base <= head_->bytes && bytes <= head_->bytes - (start - base)) {
      head_->used = start - base + bytes;
      return reinterpret_cast<void*>(start);
    }
  }
  size_t need = sizeof(Block) + alignment + bytes;
  if (need < bytes) return nullptr;
  size_t size = need < kBlockBytes ? kBlockBytes : need;
  if (size > limit_ || total_ > limit_ - size) {
    size = need;
    if (size > limit_ || total_ > limit_ - size) return nullptr;
  }
  void* memory = allocator_.allocate(allocator_.user, size, kBlockAlignment);
  if (memory == nullptr) return nullptr;
  head_ = new (memory) Block{head_, size, sizeof(Block)};
  total_ += size;
  return Allocate(bytes, alignment);
}

std::string_view Arena::CopyText(std::string_view text) {
  char* copy = static_cast<char*>(Allocate(text.size() + 1, 1));
  if (copy == nullptr) return {};
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return {copy, text.size()};
}

}  // namespace rondo
