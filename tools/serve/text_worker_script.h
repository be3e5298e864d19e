// The text of text_worker.py, which CMake puts into the library.
#ifndef RONDO_TOOLS_SERVE_TEXT_WORKER_SCRIPT_H_
#define RONDO_TOOLS_SERVE_TEXT_WORKER_SCRIPT_H_

namespace rondo::serve {

extern const char* const kTextWorkerScript;

}  // namespace rondo::serve

#endif  // RONDO_TOOLS_SERVE_TEXT_WORKER_SCRIPT_H_
