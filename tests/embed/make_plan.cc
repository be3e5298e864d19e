// make_plan FILE: writes the tiny plan of the runtime's tests, for programs that embed Rondo.
#include <cstdio>
#include <cstring>

#include "formats/plan/writer.h"
#include "tests/runtime/tiny_plan.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rondo::TinyPlan tiny;
  rondo::WriteOptions options;
  options.path = argv[1];
  rondo::Status status = rondo::WritePlan(
      tiny.data,
      [&](uint32_t, uint64_t first, uint64_t bytes, uint8_t* out) {
        std::memcpy(out, tiny.weight_bytes().data() + first, bytes);
        return rondo::Status::Ok();
      },
      options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message());
  return status.ok() ? 0 : 1;
}
