# Reads the symbols of the installed CUDA runtime (nm -D) and writes (1) a weak stub for each function, which our own
# definitions override at link time and which otherwise counts its call and returns cudaErrorNotSupported, and
# (2) the version script, and (3) the variants for --default-stream per-thread, which call the plain function.
# In: NM, LIBRARY, MAJOR, INCLUDE. Out: STUBS, VERSION_SCRIPT, JUMPS.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE listing RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${NM} -D ${LIBRARY} failed: the CUDA runtime's symbols are needed to stand in for it")
endif()
string(REGEX MATCHALL " T [A-Za-z0-9_]+" functions "${listing}")
list(TRANSFORM functions REPLACE "^ T " "")
list(LENGTH functions function_count)
if(function_count LESS 200)
  message(FATAL_ERROR "${LIBRARY}: wanted at least 200 exported functions, got ${function_count}; is it the CUDA runtime?")
endif()
string(CONCAT text
  "// Made by stubs.cmake from ${function_count} symbols of the installed CUDA runtime.\n"
  "extern \"C\" int simcuda_unimplemented(const char* name);\n"
  "#define STUB(name) extern \"C\" __attribute__((weak, visibility(\"default\"))) int name(void); \\\n"
  "  extern \"C\" int name(void) { return simcuda_unimplemented(#name); }\n")
file(READ ${INCLUDE}/cuda_runtime_api.h header)
set(jumps "// Made by stubs.cmake.\n#include <cuda_runtime_api.h>\n#include \"harness/simcuda/shim/jumps.h\"\n")
foreach(function IN LISTS functions)
  if(function MATCHES "^(cuda[A-Za-z0-9_]+)_pt[ds][sz]$" AND header MATCHES "CUDARTAPI[ \t\r\n]+${CMAKE_MATCH_1}[ \t]*\\(")
    string(REGEX REPLACE "_pt[ds][sz]$" "" plain "${function}")
    string(APPEND jumps "PER_THREAD(${function}, ${plain})\n")
  else()
    string(APPEND text "STUB(${function})\n")
  endif()
endforeach()
file(WRITE ${JUMPS} "${jumps}")
file(WRITE ${STUBS} "${text}")
file(WRITE ${VERSION_SCRIPT}
  "libcudart.so.${MAJOR} {\n  global: cuda*; __cuda*; cu[A-Z]*; nvml*; simcu_*;\n  local: *;\n};\n")
