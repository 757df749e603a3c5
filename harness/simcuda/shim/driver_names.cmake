cmake_minimum_required(VERSION 3.25)
# Reads the driver's headers (cuda.h, its typedefs and the profiler's: PyPI's packages lack cudaProfiler.h) and writes what
# needs no more than its names:
#   STUBS     a weak stub for each function, which our own definition overrides at link time and which otherwise counts
#             its call and returns CUDA_ERROR_NOT_SUPPORTED
#   JUMPS     the variants for --default-stream per-thread (_ptsz, _ptds), which call the plain function; and names of old
#             versions that differ in nothing but types which grew, which are the new ones' here
#   VERSIONS  one row for each version of each function, the newest first, for cuGetProcAddress
# In: INCLUDE, the folder of the headers.
foreach(header cuda.h cudaTypedefs.h cudaProfilerTypedefs.h)
  string(MAKE_C_IDENTIFIER ${header} text)
  file(READ ${INCLUDE}/${header} ${text})
endforeach()

# Names: what is declared, and what the header renames functions to.
string(REGEX MATCHALL "CUDAAPI[ \t\r\n]+cu[A-Z][A-Za-z0-9_]*[ \t\r\n]*\\(" declared "${cuda_h}")
list(TRANSFORM declared REPLACE "CUDAAPI[ \t\r\n]+(cu[A-Za-z0-9_]+).*" "\\1")
string(REGEX MATCHALL "PFN_cuProfiler[A-Za-z0-9]+_v[0-9]+\\)" profiler "${cudaProfilerTypedefs_h}")
list(TRANSFORM profiler REPLACE "PFN_(cu[A-Za-z0-9]+)_v.*" "\\1")
list(APPEND declared ${profiler})
string(REGEX MATCHALL "define[ \t]+cu[A-Z][A-Za-z0-9_]*[ \t]+(__CUDA_API_PT[DS][SZ]\\()?cu[A-Z][A-Za-z0-9_]*" renamed "${cuda_h}")
set(names ${declared})
foreach(line IN LISTS renamed)
  string(REGEX REPLACE ".*[ \t(](cu[A-Za-z0-9_]+)$" "\\1" name "${line}")
  list(APPEND names ${name})
  if(line MATCHES "__CUDA_API_PTSZ")
    list(APPEND names ${name}_ptsz)
  elseif(line MATCHES "__CUDA_API_PTDS")
    list(APPEND names ${name}_ptds)
  endif()
endforeach()
list(REMOVE_DUPLICATES names)
list(SORT names)
list(LENGTH names name_count)
if(name_count LESS 400)
  message(FATAL_ERROR "${INCLUDE}/cuda.h: wanted at least 400 functions, got ${name_count}; is it the CUDA driver's header?")
endif()

# Versions of each function, by its name without suffix: "3020" or "7000_ptsz".
string(REGEX MATCHALL "PFN_cu[A-Z][A-Za-z0-9_]*_v[0-9]+(_pt[ds][sz])?\\)" pointers "${cudaTypedefs_h}${cudaProfilerTypedefs_h}")
set(bases)
foreach(pointer IN LISTS pointers)
  string(REGEX MATCH "PFN_(cu[A-Za-z0-9_]+)_v([0-9]+)(_pt[ds][sz])?\\)" unused "${pointer}")
  list(APPEND bases ${CMAKE_MATCH_1})
  if(CMAKE_MATCH_3)
    list(APPEND threaded_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  else()
    list(APPEND plain_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endif()
endforeach()
list(REMOVE_DUPLICATES bases)
list(SORT bases)
# A function's symbols, oldest first.
foreach(name IN LISTS names)
  string(REGEX REPLACE "_pt[ds][sz]$" "" base "${name}")
  string(REGEX REPLACE "_v[0-9]+$" "" base "${base}")
  if(name MATCHES "_pt[ds][sz]$")
    list(APPEND threaded_symbols_${base} ${name})
  else()
    list(APPEND plain_symbols_${base} ${name})
  endif()
endforeach()

# Signatures that stayed as they were, though the version is newer than 6.5.
set(same_signature cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset cuDevicePrimaryCtxSetFlags cuDeviceGetUuid
    cuIpcOpenMemHandle cuEventElapsedTime cuStreamWriteValue32 cuStreamWriteValue64 cuStreamWaitValue32
    cuStreamWaitValue64)
set(versions)
set(jumps)
foreach(base IN LISTS bases)
  foreach(kind plain threaded)
    list(REMOVE_DUPLICATES ${kind}_${base})
    list(SORT ${kind}_${base} COMPARE NATURAL)
    list(LENGTH ${kind}_${base} version_count)
    list(LENGTH ${kind}_symbols_${base} symbol_count)
    if(version_count EQUAL 0)
      continue()  # not to be asked for by cuGetProcAddress
    endif()
    # Where one header knows more of them than the other, the newest ones belong together.
    list(REVERSE ${kind}_${base})
    list(REVERSE ${kind}_symbols_${base})
    foreach(version symbol IN ZIP_LISTS ${kind}_${base} ${kind}_symbols_${base})
      if(version AND symbol)
        string(APPEND versions "DRIVER_VERSION(${kind}, ${base}, ${version}, ${symbol})\n")
      endif()
    endforeach()
  endforeach()
  list(LENGTH plain_${base} version_count)
  list(LENGTH plain_symbols_${base} symbol_count)
  if(version_count GREATER 1 AND version_count EQUAL symbol_count)
    list(GET plain_${base} -2 second_version)
    list(GET plain_symbols_${base} -1 first_symbol)
    list(GET plain_symbols_${base} -2 second_symbol)
    if(second_version LESS_EQUAL 6050 OR base IN_LIST same_signature)
      string(APPEND jumps "OLD_NAME(${first_symbol}, ${second_symbol})\n")
      list(REMOVE_ITEM names ${first_symbol})
    endif()
  endif()
endforeach()

string(CONCAT stubs
    "// Made by driver_names.cmake from the ${name_count} functions of the CUDA driver's header.\n"
    "extern \"C\" int simcuda_unimplemented_driver(const char* name);\n"
    "#define STUB(name) extern \"C\" __attribute__((weak, visibility(\"default\"))) int name(void); \\\n"
    "  extern \"C\" int name(void) { return simcuda_unimplemented_driver(#name); }\n")
foreach(name IN LISTS names)
  if(name MATCHES "^(cu[A-Za-z0-9_]+)_pt[ds][sz]$")
    string(APPEND jumps "PER_THREAD(${name}, ${CMAKE_MATCH_1})\n")
  else()
    string(APPEND stubs "STUB(${name})\n")
  endif()
endforeach()
file(WRITE ${STUBS} "${stubs}")
file(WRITE ${JUMPS}
     "// Made by driver_names.cmake.\n#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
     "#include \"harness/simcuda/shim/jumps.h\"\n${jumps}")
file(WRITE ${VERSIONS} "${versions}")
