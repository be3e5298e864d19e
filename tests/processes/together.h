// Processes that are threads of one process; each has its own Processes.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "drivers/processes/processes.h"

namespace rondo {

// An all_gather between threads.
class Round {
 public:
  explicit Round(uint32_t size) : size_(size) {}
  // The meeting place for `rank`; lives as long as this.
  MeetingPlace Place(uint32_t rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    seats_.push_back(std::make_unique<Seat>(Seat{this, rank}));
    MeetingPlace place;
    place.user = seats_.back().get();
    place.all_gather = [](void* user, const void* mine, size_t bytes, void* all) {
      const Seat& seat = *static_cast<const Seat*>(user);
      return seat.round->Gather(seat.rank, mine, bytes, all);
    };
    return place;
  }
  int error = 0;  // the result of all_gather

 private:
  struct Seat {
    Round* round;
    uint32_t rank;
  };
  int Gather(uint32_t rank, const void* mine, size_t bytes, void* all) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (error != 0) return error;
    bytes_.resize(bytes * size_);
    std::memcpy(&bytes_[rank * bytes], mine, bytes);
    const int turn = turn_;
    if (++come_ == size_) {
      come_ = 0;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn; });
    std::memcpy(all, bytes_.data(), bytes_.size());
    return 0;
  }

  const uint32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<char> bytes_;
  uint32_t come_ = 0;
  int turn_ = 0;
};

// Runs `body` for each of `size` connected processes, each on a thread of its own.
inline void Together(uint32_t size, const std::function<void(Processes& self)>& body) {
  Round round(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessOptions options;
      options.rank = rank;
      options.size = size;
      options.place = round.Place(rank);
      Result<Processes*> made = Processes::Connect(options);
      ASSERT_TRUE(made.ok()) << made.status().message();
      const std::unique_ptr<Processes> self(*made);
      body(*self);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo
