# `cmake --install` installs: headers in include/rondo, librondo and librondo_host (shared and static), the
# library for tests, a CMake package (find_package(rondo)), pkg-config files, the rondo command and rondo-generate
# (tools/generate).
#
#   rondo::runtime, rondo::host                  shared
#   rondo::runtime_static, rondo::host_static    static
#   rondo::buckets, rondo::flight, rondo::trust, rondo::weights  shared
#   rondo::testing                               EXPECT_NO_ALLOCATIONS and the like, with the runtime and
#                                                librondo_verify (shared)
#
# The components, a Debian package each (RondoPackage.cmake): runtime (shared libraries), trust and weights (librondo_trust and
# librondo_weights, which alone need libsodium and protobuf), development (what programs are built with), tools (the commands).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A header for include/rondo: its includes of files in this tree become includes of <rondo/...>.
function(rondo_install_header path)
  get_filename_component(name ${path} NAME)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path})
  file(READ ${PROJECT_SOURCE_DIR}/${path} text)
  string(REGEX REPLACE "#include \"(runtime|runtime/buckets|runtime/testing|tools/weights|drivers/capi)/([a-z_]+\\.[a-z]+)\"" "#include \"rondo/\\2\""
         text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/package/include/rondo/${name}.new "${text}")
  configure_file(${PROJECT_BINARY_DIR}/package/include/rondo/${name}.new
                 ${PROJECT_BINARY_DIR}/package/include/rondo/${name} COPYONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/include/rondo/${name}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rondo COMPONENT development)
endfunction()

# A static library with all objects of others, so that users link one file.
function(rondo_merged_library name output_name)
  set(objects)
  foreach(part ${ARGN})
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE CXX
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package/lib)
endfunction()

# `component`: the one of the shared library's file.
function(rondo_export target name component)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT rondo_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT development)
endfunction()

# Writes NAME.pc, with `flags` after the library's own.
function(rondo_pkg_config name description requires flags)
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  file(WRITE ${PROJECT_BINARY_DIR}/package/${name}.pc
"prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir}
Libs: -L\${libdir} ${flags}
Libs.private: -lstdc++ -lm -lpthread -ldl
")
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

# Call when all targets exist.
function(rondo_install)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
  rondo_install_header(runtime/rondo.h)
  rondo_install_header(runtime/rondo.hpp)
  rondo_install_header(core/rondo_op.h)
  rondo_install_header(runtime/testing/testing.h)
  rondo_install_header(runtime/testing/allocation_counter.h)
  rondo_install_header(runtime/testing/allocation_watch.h)
  rondo_install_header(runtime/testing/lifecycle.h)
  rondo_install_header(runtime/testing/matchers.h)
  rondo_install_header(runtime/testing/peak.h)
  rondo_install_header(runtime/testing/rondo_verify.h)

  rondo_merged_library(rondo_static rondo rondo_core rondo_plan rondo_runtime)
  target_link_libraries(rondo_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
  rondo_export(rondo_shared runtime runtime)
  rondo_export(rondo_static runtime_static development)
  rondo_export(rondo_verify_shared verify runtime)
  target_link_libraries(rondo_testing INTERFACE rondo_shared rondo_verify_shared)
  rondo_export(rondo_testing testing development)
  rondo_install_header(runtime/buckets/rondo_buckets.h)
  rondo_install_header(runtime/buckets/rondo_buckets.hpp)
  rondo_export(rondo_buckets_shared buckets runtime)
  rondo_pkg_config(rondo-buckets "Runs of true shape over Rondo's plans with buckets" rondo -lrondo_buckets)
  if(TARGET rondo_trust_shared)
    rondo_install_header(tools/trust/rondo_trust.h)
    rondo_export(rondo_trust_shared trust trust)
    rondo_pkg_config(rondo-trust "Checks who signed a plan of Rondo" "" -lrondo_trust)
  endif()
  if(TARGET rondo_weights_shared)
    rondo_install_header(tools/weights/rondo_weights.h)
    rondo_install_header(tools/weights/rondo_weights.hpp)
    rondo_export(rondo_weights_shared weights weights)
    rondo_pkg_config(rondo-weights "New weights for sessions of Rondo" rondo -lrondo_weights)
  endif()
  rondo_pkg_config(rondo "Replays compiled plans of ONNX models" "" -lrondo)

  rondo_install_header(drivers/capi/rondo_flight.h)
  rondo_export(rondo_flight_shared flight runtime)
  rondo_pkg_config(rondo-flight "Records what is asked of Rondo's drivers" rondo -lrondo_flight)

  if(TARGET rondo_host_shared)
    rondo_install_header(drivers/capi/rondo_host.h)
    rondo_install_header(drivers/capi/rondo_processes.h)
    set(engines)
    foreach(isa baseline avx2 avx512)
      if(TARGET rondo_host_${isa})
        list(APPEND engines rondo_host_${isa})
      endif()
    endforeach()
    rondo_merged_library(rondo_host_static rondo_host rondo_host rondo_host_driver rondo_processes rondo_op_calls rondo_custom_op ${engines})
    target_link_libraries(rondo_host_static INTERFACE rondo_static)
    rondo_export(rondo_host_shared host runtime)
    rondo_export(rondo_host_static host_static development)
    rondo_pkg_config(rondo-host "Rondo's driver for CPUs" rondo -lrondo_host)
  endif()

  if(TARGET rondo_cuda_shared)
    rondo_install_header(drivers/capi/rondo_cuda.h)
    rondo_merged_library(rondo_cuda_static rondo_cuda rondo_cuda rondo_cuda_driver rondo_machine_code rondo_nccl rondo_processes rondo_driver_library rondo_op_calls rondo_custom_op)
    target_link_libraries(rondo_cuda_static INTERFACE rondo_static)
    rondo_export(rondo_cuda_shared cuda runtime)
    rondo_export(rondo_cuda_static cuda_static development)
    rondo_pkg_config(rondo-cuda "Rondo's driver for NVIDIA GPUs" rondo -lrondo_cuda)
  endif()

  install(EXPORT rondo_targets NAMESPACE rondo:: FILE rondo-targets.cmake DESTINATION ${package} COMPONENT development)
  file(WRITE ${PROJECT_BINARY_DIR}/package/rondo-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\"\${CMAKE_CURRENT_LIST_DIR}/rondo-targets.cmake\")
# The runtime and the drivers require no C++ standard of a program: their libraries are built, rondo.h is C99, and rondo.hpp
# works with C++17 or later. GoogleTest's headers need C++17. Projects in C alone need no C++ compiler.
get_property(rondo_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(CXX IN_LIST rondo_languages AND TARGET rondo::testing)
  target_compile_features(rondo::testing INTERFACE cxx_std_17)
endif()
")
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/rondo-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/package/rondo-config.cmake ${PROJECT_BINARY_DIR}/package/rondo-config-version.cmake
          DESTINATION ${package} COMPONENT development)
  if(TARGET rondo)
    install(TARGETS rondo COMPONENT tools)
    install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/generate DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME rondo-generate COMPONENT tools)
  endif()
endfunction()
