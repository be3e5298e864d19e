// The text of text_worker.py, which CMake embeds into the library.
#pragma once

namespace rondo::serve {

extern const char* const kTextWorkerScript;

}  // namespace rondo::serve
