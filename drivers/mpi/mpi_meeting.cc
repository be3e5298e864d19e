#include "drivers/mpi/mpi_meeting.h"

#include <cstddef>

#include "drivers/library/shared_library.h"

namespace rondo {
namespace {

// As mpi.h of Open MPI 4 and 5 declares them: handles are addresses of objects in the library.
struct Api {
  int (*initialized)(int* flag);
  int (*init)(int* argc, char*** argv);
  int (*finalize)();
  int (*comm_rank)(void* comm, int* rank);
  int (*comm_size)(void* comm, int* size);
  int (*all_gather)(const void* send, int send_count, void* send_type, void* receive, int count, void* type,
                    void* comm);
  void* world;  // MPI_COMM_WORLD
  void* byte;   // MPI_BYTE
};

constexpr const char* kSonames[] = {"libmpi.so.40"};
constexpr Symbol kSymbols[] = {
    RONDO_SYMBOL(initialized, "MPI_Initialized"), RONDO_SYMBOL(init, "MPI_Init"),
    RONDO_SYMBOL(finalize, "MPI_Finalize"),       RONDO_SYMBOL(comm_rank, "MPI_Comm_rank"),
    RONDO_SYMBOL(comm_size, "MPI_Comm_size"),     RONDO_SYMBOL(all_gather, "MPI_Allgather"),
    RONDO_SYMBOL(world, "ompi_mpi_comm_world"),   RONDO_SYMBOL(byte, "ompi_mpi_byte"),
};
constexpr SharedLibrary kLibrary = {"Open MPI", kSonames, kSymbols, "4.0"};

int AllGather(void* user, const void* mine, size_t bytes, void* all) {
  const Api& api = *static_cast<const Api*>(user);
  const int count = static_cast<int>(bytes);
  return api.all_gather(mine, count, api.byte, all, count, api.byte, api.world);
}

}  // namespace

Result<Processes*> ConnectThroughMpi(const char* library_path, uint64_t timeout_ns, std::string_view secret) {
  Api api = {};
  RONDO_RETURN_IF_ERROR(OpenLibrary(kLibrary, library_path, &api));
  int begun = 0;
  if (api.initialized(&begun) != 0 || begun != 0) {
    return Status::Error(Code::kFailedPrecondition,
                         "this process uses MPI already: give it an all_gather of its own");
  }
  if (const int error = api.init(nullptr, nullptr); error != 0) {
    return Status::Error(Code::kAborted, "MPI_Init failed (%d)", error);
  }
  int rank = 0, size = 1;
  api.comm_rank(api.world, &rank);
  api.comm_size(api.world, &size);
  ProcessOptions options;
  options.rank = static_cast<uint32_t>(rank);
  options.size = static_cast<uint32_t>(size);
  options.place.all_gather = AllGather;
  options.place.user = &api;
  options.timeout_ns = timeout_ns;
  options.secret = secret;
  Result<Processes*> connected = Processes::Connect(options);
  api.finalize();
  return connected;
}

}  // namespace rondo
