# The rules for all targets of Rondo: one warning level, one set of sanitizers, one include root.
include(RondoChecks)
include(RondoPrecompiled)
include(RondoUnity)
find_package(Threads REQUIRED)

# Options for the code that the runtime links: small rather than fast, because its size is limited to 150 KB.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-Oz RONDO_HAVE_OZ)
# Equal constants are merged across files: nothing compares their addresses.
set(RONDO_SMALL $<$<CONFIG:Release>:$<IF:$<BOOL:${RONDO_HAVE_OZ}>,-Oz,-Os>> $<$<CONFIG:Release>:-fmerge-all-constants>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These optimisations are off, because they make code longer. Values moved out of loops, or kept across calls, need more
  # registers, which are saved and restored; copied loop headers and threaded jumps are faster but longer. Blocks ordered by
  # likelihood need more jumps, and split parameters more moves.
  foreach(flag -fno-tree-loop-im -fno-move-loop-invariants -fno-caller-saves -fno-tree-ch -fno-tree-dominator-opts -fno-defer-pop
          -fno-guess-branch-probability -fno-ipa-sra)
    list(APPEND RONDO_SMALL $<$<CONFIG:Release>:${flag}>)
  endforeach()
endif()
# For files in which calls are shorter than inlined functions.
check_cxx_compiler_flag(-fno-inline-functions-called-once RONDO_HAVE_CALL_ONCE)
set(RONDO_SMALL_CALLS $<$<AND:$<CONFIG:Release>,$<BOOL:${RONDO_HAVE_CALL_ONCE}>>:-fno-inline-functions-called-once>)

set(CMAKE_REQUIRED_LINK_OPTIONS -flto)
check_cxx_compiler_flag(-flto RONDO_HAVE_LTO)
unset(CMAKE_REQUIRED_LINK_OPTIONS)

# rondo_settings(TARGET [TINY]): TINY targets are what the runtime links: no exceptions, no RTTI.
function(rondo_settings target)
  cmake_parse_arguments(ARG "TINY" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)  # GCC's, which say how to unroll
  endif()
  # g++ 12 warns falsely where optimised std::string concatenation is inlined (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  if(ARG_TINY)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti> -ffunction-sections -fdata-sections)
  endif()
  if(RONDO_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${RONDO_SANITIZE} -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # warns falsely of what is instrumented, std::regex's states for one
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    if(RONDO_SANITIZE MATCHES "undefined")  # needs RTTI, which TINY targets do not have
      target_compile_options(${target} PUBLIC -fno-sanitize=vptr -fno-sanitize-recover=undefined)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${RONDO_SANITIZE})
  endif()
endfunction()

# The tested code is optimised as usual. The tests' own code need not be: at -Og it compiles in seven tenths of -O1's time.
set(RONDO_TEST_OPTIONS $<$<CONFIG:Release>:-Og>)

# rondo_library(NAME SOURCES... [LINKS ...] [TINY] [APART ...] [OWN ...]). Without TINY, several files are compiled at
# once (rondo_unite) with the precompiled headers RONDO_LIBRARY_HEADERS, a variable of the folder.
function(rondo_library name)
  cmake_parse_arguments(ARG "TINY" "" "LINKS;APART;OWN" ${ARGN})
  set(units ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ARG_TINY)
    rondo_unite(units ${name} ${ARG_UNPARSED_ARGUMENTS} APART ${ARG_APART} OWN ${ARG_OWN})
  endif()
  add_library(${name} STATIC ${units})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  if(ARG_TINY)
    rondo_settings(${name} TINY)
  else()
    rondo_settings(${name})
    rondo_use_precompiled_headers(${name} "${RONDO_LIBRARY_HEADERS}")
  endif()
endfunction()

# rondo_whole_program(NAME): NAME_lto, the objects of a TINY library compiled again for link-time optimisation, which makes
# the code a twentieth shorter. Static libraries do not contain them, because such objects need the same compiler version.
function(rondo_whole_program name)
  get_target_property(sources ${name} SOURCES)
  add_library(${name}_lto OBJECT ${sources})
  add_dependencies(${name}_lto ${name})  # and so all that it depends on
  target_compile_options(${name}_lto PRIVATE $<TARGET_PROPERTY:${name},COMPILE_OPTIONS>)
  target_include_directories(${name}_lto SYSTEM PRIVATE $<TARGET_PROPERTY:${name},INCLUDE_DIRECTORIES>)
  if(RONDO_HAVE_LTO)
    target_compile_options(${name}_lto PRIVATE $<$<CONFIG:Release>:-flto>)
  endif()
endfunction()

# Whether one of the sources, or a header of tests/ that one includes, creates the cuda driver.
function(rondo_makes_cuda_driver result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    file(STRINGS ${source} lines REGEX "CreateCudaDriver\\(|^#include \"tests/")
    foreach(line ${lines})
      set(makes "${line}")
      if(line MATCHES "^#include \"(tests/[^\"]+)\"")
        file(STRINGS ${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1} makes REGEX "CreateCudaDriver\\(" LIMIT_COUNT 1)
      endif()
      if(makes)
        set(${result} TRUE PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

# rondo_test(NAME SOURCES... [LINKS ...] [TIMEOUT seconds] [LABELS ...] [APART ...] [OWN ...]): a GoogleTest binary
# and its ctest entry.
function(rondo_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINKS;LABELS;APART;OWN" ${ARGN})
  rondo_unite(units ${name} ${ARG_UNPARSED_ARGUMENTS} APART ${ARG_APART} OWN ${ARG_OWN})
  add_executable(${name} ${units})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} rondo_test_folders GTest::gtest GTest::gtest_main Threads::Threads)
  rondo_settings(${name})
  target_compile_options(${name} PRIVATE ${RONDO_TEST_OPTIONS})
  rondo_use_precompiled_headers(${name} rondo_test_headers)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${folder};${ARG_LABELS}"
                       # as rondo_cuda.h asks of programs
                       ENVIRONMENT "NCCL_NVLS_ENABLE=0;NCCL_MULTI_RANK_GPU_ENABLE=1;CUDA_DEVICE_MAX_CONNECTIONS=32")
  rondo_makes_cuda_driver(needs_gpu ${ARG_UNPARSED_ARGUMENTS})
  if(needs_gpu AND NOT "fake_cuda" IN_LIST ARG_LINKS AND NOT "gpu" IN_LIST ARG_LABELS)
    message(FATAL_ERROR "${name}: it makes the cuda driver, and needs a GPU where it does not link fake_cuda: it wants LABELS gpu")
  endif()
  # Tests that need a GPU, and only those, are named gpu_...
  if("gpu" IN_LIST ARG_LABELS AND NOT name MATCHES "^gpu_" OR name MATCHES "^gpu_" AND NOT "gpu" IN_LIST ARG_LABELS)
    message(FATAL_ERROR "${name}: a test that needs a GPU is called gpu_... and has the label gpu, others neither")
  endif()
endfunction()

# rondo_long_test(NAME TEST FILTER VARIABLE=NUMBER SECONDS): those tests of a rondo_test whose names fit the filter, with
# a larger number (tests/how_many.h), label `long`.
function(rondo_long_test name test filter number seconds)
  add_test(NAME ${name} COMMAND ${test} --gtest_filter=${filter})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} LABELS "${folder};long" ENVIRONMENT ${number})
endfunction()
