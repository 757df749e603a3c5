# Writes build_info.h (OUTPUT) with the version, the git commit and the build type; run at every build, and touches
# the file only where something changed, so that it costs a few milliseconds.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE sha
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
set(dirty false)
if(NOT status EQUAL 0)
  set(sha unknown)
else()
  execute_process(COMMAND git diff-index --quiet HEAD -- WORKING_DIRECTORY ${SOURCE} ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(dirty true)
  endif()
endif()
set(text
"// Made by scripts/build/cmake/build_info.cmake at build time.
#pragma once

namespace allocmark {
inline constexpr const char* kBuildVersion = \"${VERSION}\";
inline constexpr const char* kBuildGitSha = \"${sha}\";
inline constexpr bool kBuildGitDirty = ${dirty};
inline constexpr const char* kBuildType = \"${TYPE}\";
}  // namespace allocmark
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
