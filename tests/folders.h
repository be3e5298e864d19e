// Where the tests find what they read and may write.
#ifndef RONDO_TESTS_FOLDERS_H_
#define RONDO_TESTS_FOLDERS_H_

#include <string>

namespace rondo {

// The top folder of the sources.
std::string SourceFolder();
// The folder of the build, where tests may leave files.
std::string BuildFolder();

}  // namespace rondo

#endif  // RONDO_TESTS_FOLDERS_H_
