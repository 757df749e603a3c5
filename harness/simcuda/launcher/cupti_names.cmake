cmake_minimum_required(VERSION 3.25)
# Reads the symbols of the toolkit's CUPTI (nm -D), and writes a weak stub for each function, which answers "not supported",
# and the version script. In: NM, LIBRARY, MAJOR. Out: STUBS, VERSION_SCRIPT.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE listing RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${NM} -D ${LIBRARY} failed: CUPTI's symbols are needed to stand in for it")
endif()
string(REGEX MATCHALL " T cupti[A-Za-z0-9_]+" functions "${listing}")
list(TRANSFORM functions REPLACE "^ T " "")
# PyTorch asks for these, which came after 13.0.
list(APPEND functions cuptiActivityEnableRuntimeApi cuptiActivityEnableDriverApi cuptiActivityEnableCudaEventDeviceTimestamps)
list(REMOVE_DUPLICATES functions)
string(CONCAT text
  "// Made by cupti_names.cmake from the symbols of the installed CUPTI.\n"
  "extern \"C\" int simcuda_unsupported_cupti();\n"
  "#define STUB(name) extern \"C\" __attribute__((weak, visibility(\"default\"))) int name(void); \\\n"
  "  extern \"C\" int name(void) { return simcuda_unsupported_cupti(); }\n")
foreach(function IN LISTS functions)
  string(APPEND text "STUB(${function})\n")
endforeach()
file(WRITE ${STUBS} "${text}")
file(WRITE ${VERSION_SCRIPT} "libcupti.so.${MAJOR} {\n  global: cupti*;\n  local: *;\n};\n")
