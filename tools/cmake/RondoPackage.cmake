# Debian packages, by CPack: `cpack -G DEB --config BUILD/CPackConfig.cmake -B FOLDER` writes
#
#   librondo0      component runtime: the shared libraries
#   librondo-trust0
#                  component trust: librondo_trust, where libsodium is there
#   librondo-dev   component development: headers, static libraries, the CMake package and pkg-config files
#   rondo          component tools: the commands
#
# One machine can have librondo0 beside the librondo1 of a later major version, as their sonames differ.
# Call after rondo_install.
function(rondo_package)
  set(runtime librondo${PROJECT_VERSION_MAJOR})
  set(CPACK_COMPONENTS_ALL runtime development)
  if(TARGET rondo)
    list(APPEND CPACK_COMPONENTS_ALL tools)
  endif()
  set(libraries "${runtime} (= ${PROJECT_VERSION})")
  if(TARGET rondo_trust_shared)
    list(APPEND CPACK_COMPONENTS_ALL trust)
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

  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
  # Opened at run time where they are there.
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libmimalloc2.0, libdnnl2")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
  set(CPACK_COMPONENT_TRUST_DESCRIPTION "Checks who signed a plan")
  set(CPACK_DEBIAN_TRUST_PACKAGE_NAME librondo-trust${PROJECT_VERSION_MAJOR})
  set(CPACK_DEBIAN_TRUST_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)
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
