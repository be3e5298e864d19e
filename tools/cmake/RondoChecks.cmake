# The checks of the standard library, for everything that is built here.
#
# _GLIBCXX_ASSERTIONS (indices, empty containers, null pointers) in every build but release: it changes no type.
# RONDO_CHECKED_CONTAINERS: _GLIBCXX_DEBUG as well, which follows every iterator and checks every range, order and
# comparison. It makes other types of the containers, so that nothing may be linked whose headers share one with us:
#   protobuf    safe as Rondo uses it: messages of the lite runtime without maps, extensions and descriptors hold no
#               container of the standard library, and functions that take one would not link
#   GoogleTest  not safe (its registry of TEST_P is a vector that headers and library both fill): built here, from the
#               sources that Debian's libgtest-dev brings
#   benchmark   not safe (its classes have vectors): host_kernels_bench is left out
#   CLI11, nlohmann-json, flatbuffers  headers alone: safe
#   CUDA, NCCL, oneDNN, MPI, mimalloc  C interfaces: safe
# Neither notices a container that is given its own elements (x.assign(x.rbegin(), x.rend())): tests/layering looks for
# those in the sources.
option(RONDO_CHECKED_CONTAINERS "Check iterators and ranges of the standard library's containers (_GLIBCXX_DEBUG)" OFF)

add_compile_definitions($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Release>>>:_GLIBCXX_ASSERTIONS>)
if(RONDO_CHECKED_CONTAINERS)
  add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_DEBUG>)
endif()

# GoogleTest, as the targets GTest::gtest and GTest::gtest_main.
macro(rondo_find_gtest)
  if(RONDO_CHECKED_CONTAINERS)
    set(RONDO_GTEST_SOURCES /usr/src/googletest CACHE PATH "GoogleTest's sources, for RONDO_CHECKED_CONTAINERS")
    if(NOT EXISTS ${RONDO_GTEST_SOURCES}/CMakeLists.txt)
      message(FATAL_ERROR "RONDO_CHECKED_CONTAINERS builds GoogleTest from its sources, and ${RONDO_GTEST_SOURCES} has none: "
                          "install Debian's package googletest, or set RONDO_GTEST_SOURCES")
    endif()
    set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    add_subdirectory(${RONDO_GTEST_SOURCES} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  else()
    find_package(GTest REQUIRED)
  endif()
endmacro()
