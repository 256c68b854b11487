# Writes which commit is built into one C++ file, when that has changed:
# cmake -DSOURCE=... -DOUTPUT=... -P build_commit.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(NOT failed STREQUAL 0 OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"proxy/config/build_commit.h\"

namespace recourse {

std::string_view BuildCommit() { return \"@commit@\"; }

}  // namespace recourse
")
