# cmake -D BUILD=... -D SOURCE=... -D PLAN=... -P install_test.cmake: installs Rondo into a folder of the build,
# builds the projects of consumer/ against it with CMake and with pkg-config, and runs them.
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD}/install_test)
set(stage ${work}/stage)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed (${result}):\n${output}")
  endif()
  string(STRIP "${output}" output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${stage} --component rondo)
# Moved: nothing in the installed tree may name the place it was made for.
file(RENAME ${stage} ${work}/moved)
set(stage ${work}/moved)

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${stage} -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${work}/build -j 2)
foreach(program consumer_c consumer_cpp consumer_static consumer_test)
  run(${work}/build/${program} ${PLAN})
  message("${program}: ${output}")
endforeach()

find_program(pkg_config pkg-config)
if(NOT pkg_config)
  message("pkg-config is not installed: the .pc files are not tried")
  return()
endif()
file(GLOB_RECURSE pc ${stage}/rondo-host.pc)
get_filename_component(folder ${pc} DIRECTORY)
get_filename_component(libraries ${folder} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${pkg_config} --cflags --libs rondo-host)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CC} -std=c11 -Wall -Werror ${SOURCE}/consumer.c -o ${work}/by_pkg_config ${flags} -Wl,-rpath,${libraries})
run(${work}/by_pkg_config ${PLAN})
message("by pkg-config: ${output}")
