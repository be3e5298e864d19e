# Compiles headers that many files include only once. This saves a third of the time of a build from nothing.
#
# A file must still include what it needs: the presets debug and fuzz build without precompiled headers.
option(RONDO_PRECOMPILED_HEADERS "Compile the headers that many files include once" ON)

# rondo_precompiled_headers(NAME [TEST | COMMAND] [HEADERS ...] [LINKS ...]): defines NAME for targets with the same
# compiler options: libraries; with TEST, programs of rondo_test; with COMMAND, other programs.
function(rondo_precompiled_headers name)
  if(NOT RONDO_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "TEST;COMMAND" "" "HEADERS;LINKS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
  if(ARG_TEST OR ARG_COMMAND)  # position independent as programs are
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
  else()
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  rondo_settings(${name})
  if(ARG_TEST)
    target_compile_options(${name} PRIVATE ${RONDO_TEST_OPTIONS})
  endif()
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS}
    <algorithm> <cstdint> <cstring> <functional> <map> <memory> <optional> <set> <string> <string_view> <unordered_map>
    <utility> <vector>)
endfunction()

# Compiles the target's files with the precompiled headers NAME, if they exist.
function(rondo_use_precompiled_headers target name)
  if(NOT TARGET "${name}")
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  if(sources MATCHES "\\.c(;|$)")  # C++ headers are no use to C
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
  # g++ forgets that functions inlined from them came from system headers, and then gives false warnings.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()
