# Rooms that no timed call passes through, compiled together across rooms: most of the time to compile a small room goes into
# headers and templates that the next one needs again. A COLD room takes little of a run's time either: in a Release it is
# compiled with -Og, which takes a sixth less time than -O1. A WARM room generates, reads or checks each event. It has -O1, which
# takes a third less time than -O3 and makes a run of the default suite 3 % longer (2026-11-24). With
# ALLOCMARK_COLD_UNITS and ALLOCMARK_WARM_UNITS a room's target has no such code of its own. It hands on what it uses, and the
# library allocmark_cold or allocmark_warm with the code of all of them. The preset dev compiles each file of each room by
# itself. For the others scripts/check/includes.py finds a missing #include, and scripts/check/clashes.py names that only dev keeps apart.

# allocmark_cold_options(TARGET): how cold code is compiled.
function(allocmark_cold_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  set_target_properties(${target} PROPERTIES ALLOCMARK_FEWER_KINDS ON)
  # It reads what comes from strangers, so overruns end the process instead of going on; timed code has no such checks.
  target_compile_options(
    ${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Og;-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
  # AddressSanitizer's checks as calls find the same and take a tenth less time to compile; cold code can be slower.
  if(ALLOCMARK_SANITIZE MATCHES "address")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=asan-instrumentation-with-call-threshold=0>)
  endif()
endfunction()

# allocmark_warm_options(TARGET): how warm code is compiled.
function(allocmark_warm_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# allocmark_unit_sources(KIND LEFT file...): files of this folder for the library allocmark_KIND. LEFT becomes those that the
# room compiles itself: none where there is such a library, else all.
function(allocmark_unit_sources kind left)
  string(TOUPPER ${kind} upper)
  if(ALLOCMARK_${upper}_UNITS GREATER 0)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    list(FILTER ARGN INCLUDE REGEX "[.]cc$")
    set_property(GLOBAL APPEND PROPERTY allocmark_${kind}_sources ${ARGN})
    set(${left} "" PARENT_SCOPE)
  else()
    set(${left} ${ARGN} PARENT_SCOPE)
  endif()
endfunction()

# allocmark_unit_room(KIND TARGET HOW): the room's code, or part of it, is in allocmark_KIND, which needs what the room needs.
# HOW is INTERFACE or PUBLIC, as the room's target itself links.
function(allocmark_unit_room kind target how)
  set_property(GLOBAL APPEND PROPERTY allocmark_${kind}_rooms ${target})
  target_link_libraries(${target} ${how} $<LINK_ONLY:allocmark_${kind}>)
endfunction()

# allocmark_unit_library(KIND): called when all rooms are known. Neighbouring files are one unit, and all units have about the
# same size, so that two cores end together.
function(allocmark_unit_library kind)
  string(TOUPPER ${kind} upper)
  set(unit_count ${ALLOCMARK_${upper}_UNITS})
  if(NOT unit_count GREATER 0)
    return()
  endif()
  get_property(sources GLOBAL PROPERTY allocmark_${kind}_sources)
  get_property(rooms GLOBAL PROPERTY allocmark_${kind}_rooms)
  set(target allocmark_${kind})
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC ${rooms})
  cmake_language(CALL allocmark_${kind}_options ${target})
  set_target_properties(${target} PROPERTIES ALLOCMARK_FEWER_KINDS ON ALLOCMARK_COMPILER_HEAP_KB 1300000
                                             UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(all_bytes 0)
  foreach(source ${sources})
    file(SIZE ${source} size_bytes)
    math(EXPR all_bytes "${all_bytes} + ${size_bytes}")
  endforeach()
  set(before_bytes 0)
  foreach(source ${sources})
    math(EXPR unit "${unit_count} * ${before_bytes} / ${all_bytes}")
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${kind}_${unit})
    file(SIZE ${source} size_bytes)
    math(EXPR before_bytes "${before_bytes} + ${size_bytes}")
  endforeach()
endfunction()
