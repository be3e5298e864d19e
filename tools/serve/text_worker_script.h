// The text of text_worker.py, which CMake puts into the library.
#pragma once

namespace rondo::serve {

extern const char* const kTextWorkerScript;

}  // namespace rondo::serve
