# allocmark_registry(HEADER path TYPE type NAMES name...): a header with the list of all entries of a kind, so that the
# list of names in a CMakeLists.txt is the only one. For the name oom_edge and the type GeneratorEntry it declares
# kOomEdgeGenerator, which oom_edge.cc defines, and kGeneratorEntries holds the address of each, in the order of NAMES.
function(allocmark_registry)
  cmake_parse_arguments(arg "" "HEADER;TYPE" "NAMES" ${ARGN})
  string(REGEX REPLACE "Entry$" "" kind ${arg_TYPE})
  set(declarations "")
  set(addresses "")
  foreach(name IN LISTS arg_NAMES)
    set(stem "")
    string(REPLACE "_" ";" words ${name})
    foreach(word IN LISTS words)
      string(SUBSTRING ${word} 0 1 first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(TOUPPER ${first} first)
      string(APPEND stem ${first}${rest})
    endforeach()
    string(APPEND declarations "extern const ${arg_TYPE} k${stem}${kind};\n")
    string(APPEND addresses "    &k${stem}${kind},\n")
  endforeach()
  file(RELATIVE_PATH maker ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_LIST_FILE})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${arg_HEADER} @ONLY CONTENT
"// Made from the names in @maker@ by scripts/build/cmake/allocmark_registry.cmake.
#pragma once

namespace allocmark {

@declarations@
inline constexpr const @arg_TYPE@* k@kind@Entries[] = {
@addresses@};

}  // namespace allocmark
")
endfunction()
