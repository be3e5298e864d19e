# Compiles several files of a target as one. Their headers and template instances are then compiled once for
# all of them, which halves the time of a build from nothing.
#
# A file must still include what it needs: the presets debug and fuzz compile each file on its own. Two files of a target
# must not use one name for different things, even in anonymous namespaces: rename one, or list the file under APART.
option(RONDO_UNITY "Compile several files of a target as one" ON)

# The most files compiled as one: after a change to one of them, all are compiled again.
set(RONDO_UNITY_FILES 8)

# rondo_unite(RESULT TARGET SOURCES... [APART ...] [OWN ...]): RESULT gets the files to compile instead of the sources.
# APART: sources that are compiled alone. OWN: names that each of the files defines for itself.
function(rondo_unite result target)
  cmake_parse_arguments(ARG "" "" "APART;OWN" ${ARGN})
  set(files)
  set(units)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    string(FIND "${source}" "${PROJECT_BINARY_DIR}/" generated)
    if(RONDO_UNITY AND source MATCHES "\\.cc$" AND NOT generated EQUAL 0 AND NOT source IN_LIST ARG_APART)
      list(APPEND files ${source})
    else()
      list(APPEND units ${source})
    endif()
  endforeach()
  foreach(source ${ARG_APART})
    if(NOT source IN_LIST ARG_UNPARSED_ARGUMENTS)
      message(FATAL_ERROR "${target}: ${source}, listed under APART, is none of its sources")
    endif()
  endforeach()

  list(LENGTH files left)
  set(start 0)
  math(EXPR parts "(${left} + ${RONDO_UNITY_FILES} - 1) / ${RONDO_UNITY_FILES}")
  while(parts GREATER 0)
    math(EXPR count "(${left} + ${parts} - 1) / ${parts}")
    list(SUBLIST files ${start} ${count} part)
    if(count GREATER 1)
      rondo_unity_file(part ${target}_${parts} "${ARG_OWN}" ${part})
    endif()
    list(APPEND units ${part})
    math(EXPR start "${start} + ${count}")
    math(EXPR left "${left} - ${count}")
    math(EXPR parts "${parts} - 1")
  endwhile()
  set(${result} ${units} PARENT_SCOPE)
endfunction()

# Makes a file NAME.cc that includes the others by their paths in this tree, so that it is the same in any checkout. In
# each of them, the names in `own` get a number.
function(rondo_unity_file result name own)
  set(text)
  set(number 0)
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
    foreach(each ${own})
      string(APPEND text "#undef ${each}\n#define ${each} ${each}${number}\n")
    endforeach()
    string(APPEND text "#include \"${path}\"\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
  set(${result} ${unit} PARENT_SCOPE)
endfunction()
