# cmake -D SOURCE=... -D WORK=... -P runtime_only_test.cmake: configures Rondo without its compiler, with all of the
# compiler's packages hidden. With -D PLAN=..., which takes minutes, it is also built and installed, and the
# consumers are built against it (install_test.cmake).
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})

set(absent Protobuf protobuf nlohmann_json CLI11)
set(options -DCMAKE_BUILD_TYPE=Release -DRONDO_BUILD_COMPILER=OFF)
foreach(package ${absent})
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)  # an error where it is asked for
endforeach()
if(PLAN)
  list(APPEND options -DRONDO_BUILD_TESTS=OFF)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
                        -DCMAKE_CXX_COMPILER=${CXX} ${options}
                RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "configuring without the compiler failed:\n${output}")
endif()

# The packages are not required in other ways either: by configuring, by a build's commands, or by the installed package.
file(GLOB_RECURSE files ${WORK}/CMakeCache.txt ${WORK}/build.ninja ${WORK}/rondo-config.cmake ${WORK}/rondo-targets*.cmake)
list(LENGTH files count)
if(count LESS 4)
  message(FATAL_ERROR "of cache, build and package only these were found: ${files}")
endif()
foreach(file ${files})
  file(STRINGS ${file} lines REGEX "[Pp]rotobuf|protoc|nlohmann|CLI11")
  list(FILTER lines EXCLUDE REGEX "CMAKE_DISABLE_FIND_PACKAGE|RONDO_BUILD_|^//")
  if(lines)
    message(FATAL_ERROR "${file} asks for packages of the compiler:\n${lines}")
  endif()
endforeach()
file(STRINGS ${WORK}/build.ninja lines REGEX "-lrondo_")  # a library that is not built here
if(lines)
  message(FATAL_ERROR "without the compiler something links:\n${lines}")
endif()

if(PLAN)
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} -j 2 RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "building without the compiler failed:\n${output}")
  endif()
  set(BUILD ${WORK})
  set(SOURCE ${CMAKE_CURRENT_LIST_DIR}/consumer)
  include(${CMAKE_CURRENT_LIST_DIR}/install_test.cmake)
endif()
