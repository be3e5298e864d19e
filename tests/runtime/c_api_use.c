#include "tests/runtime/c_api_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char problem[512];

/* Leaves the function with the error's text if there is one. */
#define TRY(expression)                                                                          \
  do {                                                                                           \
    rondo_error* try_error = (expression);                                                       \
    if (try_error != NULL) {                                                                     \
      snprintf(problem, sizeof(problem), "%s: %s", #expression, rondo_error_message(try_error)); \
      rondo_error_destroy(try_error);                                                            \
      return problem;                                                                            \
    }                                                                                            \
  } while (0)

/* Leaves the function if the condition does not hold. */
#define EXPECT(condition)                           \
  do {                                              \
    if (!(condition)) return "not so: " #condition; \
  } while (0)

/* Whether `error` has the code, and the text somewhere in its message; destroys it. */
static int Fails(rondo_error* error, rondo_code code, const char* text) {
  int good =
      error != NULL && rondo_error_code(error) == code && strstr(rondo_error_message(error), text) != NULL;
  if (!good) fprintf(stderr, "got code %d: %s\n", (int)rondo_error_code(error), rondo_error_message(error));
  rondo_error_destroy(error);
  return good;
}

#define EXPECT_FAILS(expression, code, text) EXPECT(Fails(expression, code, text))

static rondo_code* last_told = NULL;

static const char* AskAboutPlan(const rondo_plan* plan) {
  EXPECT(rondo_plan_program_count(plan) == 3);
  EXPECT(strcmp(rondo_plan_program_name(plan, 2), "peek") == 0);
  EXPECT(rondo_plan_program_name(plan, 3) == NULL);
  uint32_t program = 99;
  TRY(rondo_plan_find_program(plan, "pick", &program));
  EXPECT(program == 1);
  EXPECT(rondo_plan_port_count(plan, 0, RONDO_INPUT) == 2);
  rondo_port port = RONDO_INIT(rondo_port);
  TRY(rondo_plan_get_port(plan, 0, RONDO_INPUT, 1, &port));
  EXPECT(strcmp(port.name, "total") == 0 && port.is_state && port.bytes == 16 && port.rank == 1);
  uint32_t index = 99;
  TRY(rondo_plan_find_port(plan, 1, RONDO_INPUT, "index", &index, &port));
  EXPECT(index == 0 && port.dtype == RONDO_I64 && port.dims[0] == 1);
  rondo_requirements requirements = RONDO_INIT(rondo_requirements);
  TRY(rondo_plan_get_requirements(plan, &requirements));
  EXPECT(requirements.devices == 1 && strcmp(requirements.target, "host") == 0);
  rondo_device_bytes bytes = RONDO_INIT(rondo_device_bytes);
  TRY(rondo_plan_get_device_bytes(plan, 0, &bytes));
  EXPECT(bytes.arena == 128 && bytes.state == 64 && bytes.weights == 16);
  EXPECT(bytes.code == 0 && bytes.graphs == 0 && bytes.first_session == 0); /* nothing for a GPU in it */
  uint32_t states = 0;
  for (uint32_t i = 0; i < rondo_plan_buffer_count(plan); ++i) {
    rondo_buffer buffer = RONDO_INIT(rondo_buffer);
    TRY(rondo_plan_get_buffer(plan, i, &buffer));
    EXPECT(buffer.device == 0 && buffer.bytes > 0);
    if (buffer.kind != RONDO_BUFFER_STATE) continue;
    EXPECT(buffer.bytes == 16 && buffer.program == RONDO_NO_INDEX && buffer.aliases == RONDO_NO_INDEX);
    ++states;
  }
  EXPECT(states == 1);
  return NULL;
}

static rondo_tensor Floats(const char* name, float* data, const int64_t* dims, uint32_t rank,
                           uint64_t bytes) {
  rondo_tensor tensor = RONDO_INIT(rondo_tensor);
  tensor.name = name;
  tensor.dtype = RONDO_F32;
  tensor.rank = rank;
  tensor.dims = dims;
  tensor.data = data;
  tensor.bytes = bytes;
  return tensor;
}

static const char* RunSession(rondo_session* session) {
  float x[4] = {10, 20, 30, 40}, y[4] = {0}, total[4] = {0};
  const int64_t four[1] = {4};
  rondo_tensor input = Floats("x", x, four, 1, sizeof(x));
  rondo_tensor outputs[2] = {Floats("total_out", total, NULL, 0, sizeof(total)),
                             Floats("y", y, NULL, 0, sizeof(y))};
  TRY(rondo_session_run(session, 0, &input, 1, outputs, 2, NULL));
  EXPECT(y[3] == 160 && total[3] == 160);
  rondo_run_options options = RONDO_INIT(rondo_run_options);
  options.stepwise = 1;
  TRY(rondo_session_run(session, 0, &input, 1, outputs, 2, &options));
  EXPECT(total[0] == 20);
  TRY(rondo_session_reset_state(session));
  TRY(rondo_session_read_state(session, "total", total, sizeof(total)));
  EXPECT(total[0] == 0);
  total[0] = 7;
  TRY(rondo_session_write_state(session, "total", total, sizeof(total)));
  void* address = NULL;
  TRY(rondo_session_state_address(session, "total", &address));
  EXPECT(*(float*)address == 7);
  EXPECT_FAILS(rondo_session_state_address(session, "total", NULL), RONDO_INVALID_ARGUMENT, "address");
  TRY(rondo_session_status(session));
  EXPECT(rondo_session_chosen_program(session, 0) == 0);
  EXPECT(rondo_session_chosen_program(session, 99) == RONDO_NO_INDEX);
  EXPECT(rondo_session_chosen_program(NULL, 0) == RONDO_NO_INDEX);
  EXPECT(rondo_session_why_smaller(session)[0] == 0 && rondo_session_why_smaller(NULL)[0] == 0);

  int64_t bad = 4;
  const int64_t one[1] = {1};
  float z = 0;
  rondo_tensor index = RONDO_INIT(rondo_tensor);
  index.dtype = RONDO_I64; /* by index 0, not by name */
  index.rank = 1;
  index.dims = one;
  index.data = &bad;
  index.bytes = sizeof(bad);
  rondo_tensor picked = Floats("z", &z, NULL, 0, sizeof(z));
  rondo_error* error = rondo_session_run(session, 1, &index, 1, &picked, 1, NULL);
  EXPECT(strcmp(rondo_error_source_node(error), "Gather \"gather_node\"") == 0);
  EXPECT_FAILS(error, RONDO_OUT_OF_RANGE, "step 0");
  bad = 3;
  TRY(rondo_session_run(session, 1, &index, 1, &picked, 1, NULL));
  EXPECT(z == 4);
  return NULL;
}

static const char* CopyStates(rondo_session* session, rondo_session* from) {
  float given[4] = {1, 2, 3, 4}, total[4] = {0};
  TRY(rondo_session_write_state(from, "total", given, sizeof(given)));
  TRY(rondo_session_copy_states(session, from));
  TRY(rondo_session_read_state(session, "total", total, sizeof(total)));
  EXPECT(memcmp(given, total, sizeof(total)) == 0);
  EXPECT_FAILS(rondo_session_copy_states(session, NULL), RONDO_INVALID_ARGUMENT, "from is NULL");
  uint64_t copied = 0;
  given[0] = 9;
  TRY(rondo_session_write_state(from, "total", given, sizeof(given)));
  TRY(rondo_session_copy_positions(session, from, 4, 2, &copied));
  TRY(rondo_session_read_state(session, "total", total, sizeof(total)));
  EXPECT(memcmp(given, total, sizeof(total)) == 0 && copied == sizeof(total)); /* it has one dim: no cache */
  EXPECT_FAILS(rondo_session_copy_positions(session, from, 4, 5, NULL), RONDO_INVALID_ARGUMENT,
               "5 of 4 positions cannot be copied");
  return NULL;
}

/* Tensors of a program built with a later rondo.h, whose structs are larger. */
static const char* RunWithLargerStructs(rondo_session* session) {
  struct {
    rondo_tensor tensor;
    char later[24];
  } outputs[2];
  float y[4] = {0}, total[4] = {0}, x[4] = {1, 1, 1, 1};
  const int64_t four[1] = {4};
  memset(outputs, 0x5a, sizeof(outputs));
  outputs[0].tensor = Floats("y", y, NULL, 0, sizeof(y));
  outputs[1].tensor = Floats("total_out", total, NULL, 0, sizeof(total));
  outputs[0].tensor.size = outputs[1].tensor.size = sizeof(outputs[0]);
  rondo_tensor input = Floats("x", x, four, 1, sizeof(x));
  TRY(rondo_session_run(session, 0, &input, 1, &outputs[0].tensor, 2, NULL));
  EXPECT(y[1] == 2);
  return NULL;
}

static void Told(void* user, rondo_error* error) {
  *(rondo_code*)user = rondo_error_code(error);
  rondo_error_destroy(error);
}

static const char* RunAsynchronously(rondo_session* session) {
  float x[4] = {1, 1, 1, 1}, y[4] = {0};
  const int64_t four[1] = {4};
  rondo_tensor input = Floats("x", x, four, 1, sizeof(x)), output = Floats("y", y, NULL, 0, sizeof(y));
  rondo_code* told = calloc(1, sizeof(*told)); /* read after the runtime, and so its thread, has gone */
  *told = RONDO_ABORTED;
  TRY(rondo_session_run_async(session, 0, &input, 1, &output, 1, NULL, Told, told));
  TRY(rondo_session_wait(session));
  EXPECT(y[3] == 4);
  EXPECT_FAILS(rondo_session_run_async(session, 0, NULL, 0, NULL, 0, NULL, Told, told),
               RONDO_INVALID_ARGUMENT, "\"x\"");
  TRY(rondo_session_run_async(session, 0, &input, 1, &output, 1, NULL, NULL, NULL));
  TRY(rondo_session_wait(session));
  last_told = told;
  return NULL;
}

static const char* ReadMetrics(const rondo_runtime* runtime, uint64_t runs) {
  rondo_metrics metrics = RONDO_INIT(rondo_metrics);
  TRY(rondo_runtime_get_metrics(runtime, &metrics));
  EXPECT(metrics.runs == runs && metrics.sessions == 2 && metrics.plans == 1);
  EXPECT(metrics.errors[RONDO_OUT_OF_RANGE] == 1 && metrics.errors[RONDO_INVALID_ARGUMENT] == 1);
  EXPECT(metrics.run_time.count == runs && metrics.queue_wait.count == 2);
  EXPECT(rondo_histogram_limit(0) == 50000);
  EXPECT(rondo_histogram_limit(RONDO_HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
  struct { /* of a program that was built with the first fields only */
    size_t size;
    uint64_t runs;
    uint64_t untouched;
  } early = {offsetof(rondo_metrics, errors), 0, 77};
  TRY(rondo_runtime_get_metrics(runtime, (rondo_metrics*)(void*)&early));
  EXPECT(early.runs == runs && early.untouched == 77);
  char text[65536];
  EXPECT(rondo_runtime_write_metrics(runtime, text, sizeof(text)) == strlen(text));
  EXPECT(rondo_runtime_write_metrics(runtime, NULL, 0) == strlen(text));
  EXPECT(rondo_runtime_write_metrics(NULL, text, sizeof(text)) == 0);
  return NULL;
}

static const char* RunInDeviceMemory(rondo_session* session) {
  _Alignas(256) float there[128] = {1, 1, 1, 1}; /* on these drivers, device memory is the process's */
  const int64_t four[1] = {4};
  rondo_tensor input = Floats("x", there, four, 1, 16), output = Floats("y", there + 64, NULL, 0, 16);
  input.memory = output.memory = RONDO_DEVICE_MEMORY;
  TRY(rondo_session_run(session, 0, &input, 1, &output, 1, NULL));
  EXPECT(there[64] == 1 && there[67] == 4);
  input.size = offsetof(rondo_tensor, memory); /* of a program that was built before there was the field */
  input.data = there + 64;
  output.memory = RONDO_HOST_MEMORY;
  TRY(rondo_session_run(session, 0, &input, 1, &output, 1, NULL));
  EXPECT(there[67] == 16);
  output.memory = RONDO_DEVICE_MEMORY;
  input = Floats("x", there, four, 1, 16);
  input.memory = RONDO_DEVICE_MEMORY;
  output.data = there + 2;
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, &output, 1, NULL), RONDO_INVALID_ARGUMENT,
               "input \"x\" overlaps output \"y\"");
  input.memory = (rondo_memory)2;
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, &output, 1, NULL), RONDO_INVALID_ARGUMENT,
               "memory 2 is unknown");
  return NULL;
}

static void CountLog(void* user, rondo_log_level level, const char* text) {
  if (level == RONDO_LOG_INFO && text[0] != 0) ++*(int*)user;
}

const char* UsePlanFromC(const void* bytes, size_t size, rondo_driver* driver) {
  rondo_plan* plan = NULL;
  TRY(rondo_plan_open_bytes(bytes, size, NULL, &plan));
  const char* trouble = AskAboutPlan(plan);
  if (trouble != NULL) return trouble;
  int logged = 0;
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.log = CountLog;
  options.log_user = &logged;
  options.async_workers = 1;
  rondo_runtime* runtime = NULL;
  TRY(rondo_runtime_create(driver, &options, &runtime));
  TRY(rondo_runtime_supports(runtime, plan));
  TRY(rondo_runtime_ready(runtime));
  rondo_session *session = NULL, *other = NULL;
  TRY(rondo_session_create(runtime, plan, &session));
  TRY(rondo_session_create(runtime, plan, &other));
  EXPECT(logged > 0);
  rondo_plan_destroy(plan); /* the session keeps what it needs */
  trouble = RunSession(session);
  if (trouble == NULL) trouble = RunWithLargerStructs(session);
  if (trouble == NULL) trouble = RunAsynchronously(session);
  if (trouble == NULL) trouble = ReadMetrics(runtime, 7);
  if (trouble == NULL) trouble = RunInDeviceMemory(session);
  if (trouble == NULL) trouble = CopyStates(session, other);
  if (trouble != NULL) return trouble;
  TRY(rondo_session_destroy(other));
  TRY(rondo_session_destroy(session));
  TRY(rondo_runtime_destroy(runtime));
  EXPECT(*last_told == RONDO_OK);
  free(last_told);
  return NULL;
}

static const char* MisusePlan(const void* bytes, size_t size) {
  rondo_plan* plan = NULL;
  EXPECT_FAILS(rondo_plan_open(NULL, NULL, &plan), RONDO_INVALID_ARGUMENT, "path is NULL");
  EXPECT_FAILS(rondo_plan_open("nowhere.rondo", NULL, &plan), RONDO_NOT_FOUND, "nowhere.rondo");
  EXPECT_FAILS(rondo_plan_open("nowhere.rondo", NULL, NULL), RONDO_INVALID_ARGUMENT, "plan is NULL");
  EXPECT_FAILS(rondo_plan_open_bytes(bytes, size / 2, NULL, &plan), RONDO_CORRUPT, "");
  rondo_plan_options unset = {0};
  EXPECT_FAILS(rondo_plan_open_bytes(bytes, size, &unset, &plan), RONDO_INVALID_ARGUMENT,
               "RONDO_INIT(rondo_plan_options)");
  rondo_plan_options both = RONDO_INIT(rondo_plan_options);
  both.read_weights = both.map_weights = 1;
  EXPECT_FAILS(rondo_plan_open("nowhere.rondo", &both, &plan), RONDO_INVALID_ARGUMENT,
               "both read_weights and map_weights");
  EXPECT(plan == NULL);
  TRY(rondo_plan_open_bytes(bytes, size, NULL, &plan));
  uint32_t index = 0;
  EXPECT_FAILS(rondo_plan_find_program(plan, "decode", &index), RONDO_NOT_FOUND,
               "\"add\", \"pick\", \"peek\"");
  rondo_port port = {0};
  EXPECT_FAILS(rondo_plan_get_port(plan, 0, RONDO_INPUT, 0, &port), RONDO_INVALID_ARGUMENT, "rondo_port");
  port.size = sizeof(port);
  EXPECT_FAILS(rondo_plan_get_port(plan, 0, RONDO_INPUT, 9, &port), RONDO_NOT_FOUND, "input 9");
  EXPECT_FAILS(rondo_plan_get_port(plan, 9, RONDO_INPUT, 0, &port), RONDO_NOT_FOUND, "program 9");
  EXPECT_FAILS(rondo_plan_get_port(plan, 0, (rondo_direction)7, 0, &port), RONDO_INVALID_ARGUMENT,
               "direction");
  EXPECT_FAILS(rondo_plan_find_port(plan, 0, RONDO_OUTPUT, "x", NULL, NULL), RONDO_NOT_FOUND, "\"x\"");
  rondo_device_bytes device = RONDO_INIT(rondo_device_bytes);
  EXPECT_FAILS(rondo_plan_get_device_bytes(plan, 1, &device), RONDO_NOT_FOUND, "device 1");
  rondo_buffer buffer = RONDO_INIT(rondo_buffer);
  EXPECT_FAILS(rondo_plan_get_buffer(plan, 1000, &buffer), RONDO_NOT_FOUND, "buffer 1000");
  EXPECT(rondo_plan_program_count(NULL) == 0 && rondo_plan_program_name(NULL, 0) == NULL);
  rondo_plan_destroy(plan);
  return NULL;
}

static const char* MisuseSession(rondo_session* session) {
  float x[4] = {0};
  const int64_t dims[RONDO_MAX_RANK + 1] = {4};
  rondo_tensor input = Floats("x", x, dims, 1, sizeof(x));
  EXPECT_FAILS(rondo_session_run(NULL, 0, NULL, 0, NULL, 0, NULL), RONDO_INVALID_ARGUMENT, "session is NULL");
  EXPECT_FAILS(rondo_session_run(session, 0, NULL, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT,
               "array is NULL");
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 900, NULL, 0, NULL), RONDO_INVALID_ARGUMENT,
               "900 inputs");
  EXPECT_FAILS(rondo_session_run(session, 9, &input, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT, "program 9");
  input.rank = RONDO_MAX_RANK + 1;
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT, "rank 13");
  input.rank = 1;
  input.dims = NULL;
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT,
               "dims are NULL");
  input.dims = dims;
  input.dtype = (rondo_dtype)99;
  EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT, "dtype 99");
  input.dtype = RONDO_F32;
  /* Sizes that are not set, cut a field, are not aligned, or are too large for any struct. */
  const size_t sizes[] = {0, 8, offsetof(rondo_tensor, bytes), sizeof(input) + 4, (size_t)1 << 40, SIZE_MAX};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    input.size = sizes[i];
    EXPECT_FAILS(rondo_session_run(session, 0, &input, 1, NULL, 0, NULL), RONDO_INVALID_ARGUMENT, "size");
  }
  EXPECT_FAILS(rondo_session_read_state(session, "nothing", x, 16), RONDO_NOT_FOUND, "nothing");
  EXPECT_FAILS(rondo_session_write_state(session, "total", NULL, 16), RONDO_INVALID_ARGUMENT, "null");
  TRY(rondo_session_status(session));
  return NULL;
}

const char* MisuseFromC(const void* bytes, size_t size, rondo_driver* driver, rondo_driver* broken) {
  const char* trouble = MisusePlan(bytes, size);
  if (trouble != NULL) return trouble;
  rondo_runtime* runtime = NULL;
  EXPECT_FAILS(rondo_runtime_create(NULL, NULL, &runtime), RONDO_INVALID_ARGUMENT, "driver is NULL");
  EXPECT_FAILS(rondo_runtime_create(broken, NULL, &runtime), RONDO_UNSUPPORTED, "no such device");
  TRY(rondo_runtime_create(driver, NULL, &runtime));
  rondo_session* session = NULL;
  EXPECT_FAILS(rondo_session_create(runtime, NULL, &session), RONDO_INVALID_ARGUMENT, "plan is NULL");
  rondo_plan* plan = NULL;
  TRY(rondo_plan_open_bytes(bytes, size, NULL, &plan));
  TRY(rondo_session_create(runtime, plan, &session));
  trouble = MisuseSession(session);
  if (trouble != NULL) return trouble;
  EXPECT_FAILS(rondo_runtime_destroy(runtime), RONDO_FAILED_PRECONDITION, "1 session");
  TRY(rondo_session_destroy(session));
  TRY(rondo_runtime_destroy(runtime));
  rondo_plan_destroy(plan);
  TRY(rondo_session_destroy(NULL));
  TRY(rondo_runtime_destroy(NULL));
  rondo_plan_destroy(NULL);
  rondo_error_destroy(NULL);
  return NULL;
}
