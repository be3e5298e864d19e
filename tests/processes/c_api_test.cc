// Several processes through the C interface; the processes are threads.
#include "drivers/capi/rondo_host.h"
#include "formats/plan/writer.h"
#include "runtime/rondo.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/processes/together.h"

namespace rondo {
namespace {

struct Destroy {
  void operator()(rondo_error* error) const { rondo_error_destroy(error); }
};
using Error = std::unique_ptr<rondo_error, Destroy>;

// One process's plan, driver, runtime and session.
struct Own {
  ~Own() {
    Error(rondo_session_destroy(session));
    Error(rondo_runtime_destroy(runtime));
    rondo_plan_destroy(plan);
  }
  Error Make(const std::vector<uint8_t>& bytes, const rondo_processes& processes) {
    rondo_plan_options named = RONDO_INIT(rondo_plan_options);
    named.name = "mesh";
    if (Error error{rondo_plan_open_bytes(bytes.data(), bytes.size(), &named, &plan)}) return error;
    rondo_host_options options = RONDO_INIT(rondo_host_options);
    options.processes = &processes;
    rondo_driver* driver = rondo_host_driver_create_with(&options);
    if (Error error{rondo_runtime_create(driver, nullptr, &runtime)}) return error;
    return Error(rondo_session_create(runtime, plan, &session));
  }
  rondo_plan* plan = nullptr;
  rondo_runtime* runtime = nullptr;
  rondo_session* session = nullptr;
};

std::vector<uint8_t> BytesOf(int layers) {
  MeshPlan mesh(2);
  MakeLayers(&mesh, layers, 4);
  std::vector<uint8_t> bytes;
  const Status written = WritePlanBytes(mesh.data, {}, &bytes);
  EXPECT_TRUE(written.ok()) << written.message();
  return bytes;
}

void OnTwo(const std::function<void(const rondo_processes& processes)>& body) {
  Round round(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const MeetingPlace place = round.Place(rank);
    rondo_processes processes = RONDO_INIT(rondo_processes);
    processes.rank = rank;
    processes.count = 2;
    processes.all_gather = place.all_gather;
    processes.user = place.user;
    threads.emplace_back([processes, &body] { body(processes); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CApiTest, EachProcessRunsItsDevice) {
  const std::vector<uint8_t> bytes = BytesOf(2);
  OnTwo([&](const rondo_processes& processes) {
    Own own;
    const Error error = own.Make(bytes, processes);
    ASSERT_EQ(error, nullptr) << rondo_error_message(error.get());
    const std::string number = std::to_string(processes.rank), in_name = "b" + number,
                      out_name = "out" + number;
    float x[4] = {1, 2, 3, 4}, b[4] = {1, 1, 1, 1}, out[4] = {};
    const int64_t dims[] = {4};
    rondo_tensor in[2] = {RONDO_INIT(rondo_tensor), RONDO_INIT(rondo_tensor)}, to = RONDO_INIT(rondo_tensor);
    const char* const names[2] = {"x", in_name.c_str()};
    float* const data[2] = {x, b};
    for (int i = 0; i < 2; ++i) {
      in[i].name = names[i];
      in[i].dtype = RONDO_F32;
      in[i].rank = 1;
      in[i].dims = dims;
      in[i].data = data[i];
      in[i].bytes = sizeof(x);
    }
    to.name = out_name.c_str();
    to.dtype = RONDO_F32;
    to.data = out;
    to.bytes = sizeof(out);
    const Error ran(rondo_session_run(own.session, 0, in, 2, &to, 1, nullptr));
    ASSERT_EQ(ran, nullptr) << rondo_error_message(ran.get());
    const std::vector<float> expected = LayersReference(2, 2, {1, 2, 3, 4}, std::vector<float>(8, 1));
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], expected[i]);
  });
}

TEST(CApiTest, AnotherPlanIsRefusedByName) {
  const std::vector<uint8_t> bytes[2] = {BytesOf(2), BytesOf(3)};
  OnTwo([&](const rondo_processes& processes) {
    Own own;
    const Error error = own.Make(bytes[processes.rank], processes);
    EXPECT_EQ(rondo_error_code(error.get()), RONDO_FAILED_PRECONDITION);
    EXPECT_NE(std::string(rondo_error_message(error.get())).find("has plan \"mesh\" (contents"),
              std::string::npos)
        << rondo_error_message(error.get());
  });
}

TEST(CApiTest, WhatIsWrongWithTheProcessesIsTheRuntimesError) {
  rondo_processes processes = RONDO_INIT(rondo_processes);
  processes.count = 2;
  const std::vector<uint8_t> bytes = BytesOf(2);
  const Error missing = Own().Make(bytes, processes);
  EXPECT_NE(std::string(rondo_error_message(missing.get())).find("need an all_gather or an address"),
            std::string::npos);
  processes.size = 0;
  const Error unset = Own().Make(bytes, processes);
  EXPECT_NE(std::string(rondo_error_message(unset.get())).find("its size is not set"), std::string::npos);
}

}  // namespace
}  // namespace rondo
