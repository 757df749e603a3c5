# Helpers so that every target of ours gets the same warnings, include root and sanitizers.
add_library(allocmark_options INTERFACE)
target_include_directories(allocmark_options INTERFACE ${PROJECT_SOURCE_DIR})
# Messages name files as seen from the repository, and an installed program names no folder of the build machine.
target_compile_options(allocmark_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
target_compile_options(
  allocmark_options
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wnon-virtual-dtor>
            # g++ 12 warns of overlapping, uninitialized and overread bytes inside std::string where there are none (GCC
            # bugs 105651, 105562); asan and ubsan builds look for the real ones.
            $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-maybe-uninitialized;-Wno-stringop-overread>
            $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${ALLOCMARK_WERROR}>>:-Werror>
            # g++ looks through its memory for what it no longer needs only above 400 MB: an eighth less time to compile, at
            # up to 1.1 GB a process instead of 0.75. What is compiled across rooms never gets there: another fifteenth.
            $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=$<IF:$<BOOL:$<TARGET_PROPERTY:ALLOCMARK_COMPILER_HEAP_KB>>,$<TARGET_PROPERTY:ALLOCMARK_COMPILER_HEAP_KB>,400000>>)
# In a Release all symbols are bound at the start, and the tables of them are read-only from then on.
target_link_options(allocmark_options INTERFACE $<$<CONFIG:Release>:LINKER:-z,relro,-z,now>)
if(ALLOCMARK_SANITIZE)
  target_compile_options(allocmark_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ALLOCMARK_SANITIZE};-fno-omit-frame-pointer>)
  if(ALLOCMARK_SANITIZE MATCHES "undefined")
    # What it finds ends the program: a message alone fails no test.
    target_compile_options(allocmark_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>)
    # These kinds check every use of a pointer, and with all of them code takes two to three times as long to compile. So only
    # timed rooms have them: backends, plugins, replay and what is timed. Elsewhere pointers are those of containers and
    # libraries, and AddressSanitizer alone looks at them.
    target_compile_options(
      allocmark_options INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:ALLOCMARK_FEWER_KINDS>>>:-fno-sanitize=null,alignment,object-size,pointer-overflow,vptr>
                                $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:$<TARGET_PROPERTY:ALLOCMARK_ANY_ENUM>>>:-fno-sanitize=enum>)
  endif()
  target_link_options(allocmark_options INTERFACE -fsanitize=${ALLOCMARK_SANITIZE})
  include(CheckLinkerFlag)
  foreach(linker lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} ALLOCMARK_HAS_LINKER_${linker})
    if(ALLOCMARK_HAS_LINKER_${linker} AND NOT allocmark_test_linker)
      set(allocmark_test_linker -fuse-ld=${linker})
    endif()
  endforeach()
endif()

# allocmark_together(TARGET...): up to ALLOCMARK_UNITY of its files are compiled as one, since reading the same headers again
# takes longest to compile. In the preset dev each file is compiled by itself; scripts/check/includes.py finds a missing #include.
function(allocmark_together)
  set_target_properties(${ARGN} PROPERTIES ALLOCMARK_FEWER_KINDS ON)
  if(ALLOCMARK_UNITY GREATER 1)
    set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ALLOCMARK_UNITY})
  endif()
endfunction()

# allocmark_room(SOURCES file... UNTIMED file... COMMANDS name... JOBS name... USES room... LIBS target... [FEWER_KINDS | WARM | COLD]):
# the room of this folder as a library. Its target is named after its path, allocmark_harness_core_replay. The program has its
# COMMANDS and JOBS: for size and size these are kSizeCommand and kSizeJob. USES are the rooms it may include:
# scripts/check/rooms.py holds the code to them. No timed call passes through its UNTIMED files, nor through a COLD or WARM room
# (allocmark_units.cmake). A sanitizer looks for fewer kinds of errors in these, and in a FEWER_KINDS room.
function(allocmark_room)
  cmake_parse_arguments(arg "COLD;WARM;FEWER_KINDS" "" "SOURCES;UNTIMED;COMMANDS;JOBS;USES;LIBS" ${ARGN})
  file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" target allocmark_${room})
  list(TRANSFORM arg_USES REPLACE "/" "_")
  list(TRANSFORM arg_USES PREPEND allocmark_)
  set(kind "")
  if(arg_COLD)
    set(kind cold)
    allocmark_unit_sources(cold arg_SOURCES ${arg_SOURCES})
  elseif(arg_WARM)
    set(kind warm)
    allocmark_unit_sources(warm arg_SOURCES ${arg_SOURCES})
  elseif(arg_UNTIMED)
    set(kind cold)
    allocmark_unit_sources(cold arg_UNTIMED ${arg_UNTIMED})
  endif()
  set(sources ${arg_SOURCES} ${arg_UNTIMED})
  set(how INTERFACE)
  if(sources)
    set(how PUBLIC)
    add_library(${target} STATIC ${sources})
    allocmark_together(${target})
    if(arg_COLD OR arg_WARM)
      cmake_language(CALL allocmark_${kind}_options ${target})
    else()
      # Else a call's time depends on what the linker puts before it: a loop that crosses lines of the instruction cache took
      # 40 % longer (ggml_legacy's scan of its slots).
      target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>,$<CONFIG:Release>>:-falign-functions=64>)
      if(NOT arg_FEWER_KINDS)
        set_target_properties(${target} PROPERTIES ALLOCMARK_FEWER_KINDS OFF)
      endif()
    endif()
  else()
    add_library(${target} INTERFACE)
  endif()
  target_link_libraries(${target} ${how} allocmark_options ${arg_USES} ${arg_LIBS})
  string(TOUPPER "${kind}" upper)
  if(kind AND ALLOCMARK_${upper}_UNITS GREATER 0)
    allocmark_unit_room(${kind} ${target} ${how})
  endif()
  if(arg_COMMANDS OR arg_JOBS)
    set_property(GLOBAL APPEND PROPERTY allocmark_tool_rooms ${target})
    set_property(GLOBAL APPEND PROPERTY allocmark_commands ${arg_COMMANDS})
    set_property(GLOBAL APPEND PROPERTY allocmark_jobs ${arg_JOBS})
  endif()
endfunction()

# allocmark_text_header(FILE CONSTANT HEADER OUT): makes generated/harness/HEADER, which holds the text of FILE as CONSTANT.
# Its path goes to OUT, for a target that makes it.
function(allocmark_text_header file constant header out)
  set(path ${PROJECT_BINARY_DIR}/generated/harness/${header})
  add_custom_command(
    OUTPUT ${path}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${path} -DNAME=${constant}
            -P ${PROJECT_SOURCE_DIR}/scripts/build/cmake/text_header.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/scripts/build/cmake/text_header.cmake
    VERBATIM)
  set(${out} ${path} PARENT_SCOPE)
endfunction()

# Compiles what nearly every test includes once, with the first test program, for all of them. Only for tests: elsewhere
# it would hide a missing #include. ccache cannot keep what was compiled this way, so beside ccache it is off.
function(allocmark_precompile_test_headers name)
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
    return()
  endif()
  # g++ 12 then warns of overrun bytes inside std::string where there are none (GCC bug 105329). g++ 13 does not, and asan
  # and ubsan builds look for the real ones.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overread;-Wno-stringop-overflow>)
  endif()
  get_property(owner GLOBAL PROPERTY allocmark_first_test)
  if(owner)
    target_precompile_headers(${name} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/catch.h <fmt/format.h> <algorithm> <filesystem>
                              <functional> <map> <memory> <optional> <string> <vector>)
    set_property(GLOBAL PROPERTY allocmark_first_test ${name})
  endif()
endfunction()

# allocmark_test(NAME SOURCES file... ROOMS room... LIBS target... DEFINITIONS NAME=value... DEPENDS target... [COST n]
# [AT_ONCE filter...] [SIMCUDA] [RUNS_PROGRAM] [HANDS_OUT_STACK]): one Catch2 program and its CTest entry. SIMCUDA runs it with the simulated CUDA
# runtime in front. RUNS_PROGRAM is for one that runs whole programs, ALLOCMARK_PROGRAM: under a sanitizer this is
# ALLOCMARK_TESTED_PROGRAM, of another build, or the test is left out. Simulated calls leave the host's caches warm. Tests with a
# COST begin first, the highest before all others. AT_ONCE: a process for the test cases of each filter, all at the same time.
# Exit code 77 is reported as skipped. AddressSanitizer looks for overruns of a test's own variables only where the test HANDS_OUT_STACK,
# arrays and structs of C that the code under test fills, or compiles code of ours itself: half of the time to compile tests
# goes into this.
function(allocmark_test name)
  if(NOT ALLOCMARK_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "SIMCUDA;RUNS_PROGRAM;HANDS_OUT_STACK" "COST" "SOURCES;ROOMS;LIBS;DEFINITIONS;DEPENDS;AT_ONCE" ${ARGN})
  if(arg_RUNS_PROGRAM)
    if(NOT ALLOCMARK_SANITIZE)
      list(APPEND arg_DEFINITIONS ALLOCMARK_PROGRAM="$<TARGET_FILE:allocmark>")
      list(APPEND arg_DEPENDS allocmark)
    elseif(ALLOCMARK_TESTED_PROGRAM)
      list(APPEND arg_DEFINITIONS ALLOCMARK_PROGRAM="${ALLOCMARK_TESTED_PROGRAM}")
    else()
      return()
    endif()
  endif()
  list(TRANSFORM arg_ROOMS REPLACE "/" "_")
  list(TRANSFORM arg_ROOMS PREPEND allocmark_)
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE allocmark_options allocmark_catch ${arg_ROOMS} ${arg_LIBS})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  # Under a sanitizer each test program holds the code of most rooms, 110 MB: GNU ld takes 1.3 s of the processor for it, gold
  # 1.0 s, lld 0.5 s. Libraries are linked as for users.
  target_link_options(${name} PRIVATE ${allocmark_test_linker})
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  allocmark_precompile_test_headers(${name})
  allocmark_together(${name})
  if(ALLOCMARK_SANITIZE MATCHES "address" AND NOT arg_HANDS_OUT_STACK)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=asan-stack=0>)
  endif()
  set(command ${name})
  if(arg_AT_ONCE)
    set(command ${PROJECT_SOURCE_DIR}/tests/support/at_once.py $<TARGET_FILE:${name}> ${arg_AT_ONCE})
  endif()
  add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
  # Five frames tell where a block was allocated. Thirty take up to a fifth of a test's time.
  set(environment ASAN_OPTIONS=malloc_context_size=5)
  if(arg_SIMCUDA)
    # A cell leaves a faulty plugin's backend behind on purpose, and tests preload simcuda before the sanitizer.
    set(environment "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/lib/simcuda" SIMCUDA_HOST_CACHES=warm
                    "ASAN_OPTIONS=malloc_context_size=5:detect_leaks=0:verify_asan_link_order=0")
    add_dependencies(${name} simcuda)
  endif()
  set_property(TEST ${name} PROPERTY ENVIRONMENT "${environment}")
endfunction()

# allocmark_program_test(NAME COMMAND word... [TIMEOUT seconds] [COST n] [CACHES cold] [ENVIRONMENT NAME=value...]): a script that
# uses the program, a library or a script of ours as its users do. Needs no package beyond those of the build. Its label is
# "program". Simulated calls leave the host's caches warm, which halves the time of most tests; CACHES cold is for those
# that look at host time, and for the program as users find it.
function(allocmark_program_test name)
  if(NOT ALLOCMARK_PROGRAM_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "TIMEOUT;COST;CACHES" "COMMAND;ENVIRONMENT" ${ARGN})
  if(NOT arg_CACHES)
    set(arg_CACHES warm)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  list(GET arg_COMMAND 0 script)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${script})
    list(REMOVE_AT arg_COMMAND 0)
    list(PREPEND arg_COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS program
                                          ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;SIMCUDA_HOST_CACHES=${arg_CACHES};${arg_ENVIRONMENT};MISBEHAVING_RUNTIME=$<TARGET_FILE:allocmark_misbehaving_runtime>")
  if(arg_COST)
    set_tests_properties(${name} PROPERTIES COST ${arg_COST})
  endif()
endfunction()
