# Writes build.cc (tools/rondo/build.h) if its content changes:
#   cmake -DSOURCE=DIR -DOUTPUT=FILE -DVERSION=V -DOPTIONS=TEXT -P WriteBuild.cmake
find_program(git git)
set(commit "no git checkout")
if(git)
  file(REAL_PATH ${SOURCE} source)
  execute_process(COMMAND ${git} -C ${source} rev-parse --show-toplevel
                  OUTPUT_VARIABLE top ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  # The checkout must be this tree's own, not one of something else that contains this tree.
  if(top STREQUAL source)
    execute_process(COMMAND ${git} -C ${source} rev-parse --short=12 HEAD
                    OUTPUT_VARIABLE head ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${git} -C ${source} --no-optional-locks status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
    if(head)
      set(commit "commit ${head}")
      if(changes OR failed)
        string(APPEND commit " and changes")
      endif()
    endif()
  endif()
endif()
set(text "#include \"tools/rondo/build.h\"

namespace rondo::tools {

const char* const kBuild = \"rondo ${VERSION} (${commit}, ${OPTIONS})\";

}  // namespace rondo::tools
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
