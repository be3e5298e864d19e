# Debian packages, by CPack: `cpack -G DEB --config BUILD/CPackConfig.cmake -B FOLDER` writes
#
#   librondo0      component runtime: the shared libraries
#   librondo-trust0
#                  component trust: librondo_trust, where libsodium is there
#   librondo-weights0
#                  component weights: librondo_weights, which reads ONNX files
#   librondo-dev   component development: headers, static libraries, the CMake package and pkg-config files
#   rondo          component tools: the commands
#
# One machine can have librondo0 beside the librondo1 of a later major version, as their sonames differ.
# Each but librondo-dev has a list of the components of its binaries, share/doc/PACKAGE/sbom.cdx.json, which an installation
# without packages also writes.
#
# Call after rondo_install.

# The list for the component that is the Debian package `package`: the binaries of these targets; packages that are compiled in;
# libraries that are opened at run time.
function(rondo_sbom component package)
  cmake_parse_arguments(ARG "" "" "TARGETS;COMPILED_IN;OPENED" ${ARGN})
  set(binaries)
  foreach(target ${ARG_TARGETS})
    if(TARGET ${target})
      list(APPEND binaries $<TARGET_FILE:${target}>)
    endif()
  endforeach()
  set(file ${PROJECT_BINARY_DIR}/package/${package}/sbom.cdx.json)
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -DNAME=${package} -DVERSION=${PROJECT_VERSION} \"-DOUTPUT=${file}\"
    \"-DBINARIES=${binaries}\" \"-DCOMPILED_IN=${ARG_COMPILED_IN}\" \"-DOPENED=${ARG_OPENED}\"
    -P \"${PROJECT_SOURCE_DIR}/tools/cmake/WriteSbom.cmake\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endfunction()

function(rondo_package)
  set(runtime librondo${PROJECT_VERSION_MAJOR})
  set(CPACK_COMPONENTS_ALL runtime development)
  if(TARGET rondo)
    list(APPEND CPACK_COMPONENTS_ALL tools)
  endif()
  set(opened libmimalloc.so.2 libdnnl.so.2 libmpi.so.40 libcuda.so.1 libcublasLt.so libcudnn.so libnccl.so.2)
  rondo_sbom(runtime ${runtime} TARGETS rondo_shared rondo_host_shared rondo_cuda_shared rondo_buckets_shared rondo_flight_shared rondo_verify_shared
             COMPILED_IN libflatbuffers-dev libxxhash-dev OPENED ${opened})
  if(TARGET rondo)
    rondo_sbom(tools rondo TARGETS rondo OPENED ${opened} libnvrtc.so
               COMPILED_IN libflatbuffers-dev libxxhash-dev libprotobuf-dev nlohmann-json3-dev libcli11-dev libboost-dev)
  endif()
  set(libraries "${runtime} (= ${PROJECT_VERSION})")
  if(TARGET rondo_weights_shared)
    list(APPEND CPACK_COMPONENTS_ALL weights)
    rondo_sbom(weights librondo-weights${PROJECT_VERSION_MAJOR} TARGETS rondo_weights_shared
               COMPILED_IN libflatbuffers-dev libxxhash-dev libprotobuf-dev nlohmann-json3-dev)
    string(APPEND libraries ", librondo-weights${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
  endif()
  if(TARGET rondo_trust_shared)
    list(APPEND CPACK_COMPONENTS_ALL trust)
    rondo_sbom(trust librondo-trust${PROJECT_VERSION_MAJOR} TARGETS rondo_trust_shared)
    string(APPEND libraries ", librondo-trust${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
  endif()
  set(CPACK_PACKAGE_NAME rondo)
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_CONTACT "the developers of Rondo <rondo@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Replays compiled plans of ONNX models on CPUs and GPUs")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})  # of librondo, which one links

  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
  # Opened at run time if they are installed.
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libmimalloc2.0, libdnnl2")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
  set(CPACK_COMPONENT_TRUST_DESCRIPTION "Checks who signed a plan")
  set(CPACK_DEBIAN_TRUST_PACKAGE_NAME librondo-trust${PROJECT_VERSION_MAJOR})
  set(CPACK_DEBIAN_TRUST_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
  set(CPACK_COMPONENT_WEIGHTS_DESCRIPTION "Gives new weights to plans in use")
  set(CPACK_DEBIAN_WEIGHTS_PACKAGE_NAME librondo-weights${PROJECT_VERSION_MAJOR})
  set(CPACK_DEBIAN_WEIGHTS_PACKAGE_DEPENDS "${runtime} (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_WEIGHTS_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
  file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")

  set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers and static libraries to build programs that embed Rondo")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librondo-dev)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${libraries}")

  set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Compiles ONNX models into plans, inspects, runs and serves them")
  set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME rondo)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "libmimalloc2.0, libdnnl2")
  include(CPack)
endfunction()
