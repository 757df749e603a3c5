# Rooms that are never timed (COLD). A Release optimises them less: -Og takes a sixth less time to compile than -O1. With
# ALLOCMARK_COLD_UNITS they are also compiled together, across rooms: most of the time to compile a small room goes into
# headers and templates that the next one needs again. Then a room's target has no code of its own. It hands on what it
# uses, and the library allocmark_cold with the code of all of them. The preset dev compiles each file of each room by
# itself. For the others scripts/includes.py finds a missing #include, and scripts/clashes.py names that only dev keeps apart.

# allocmark_cold_options(TARGET): how cold code is compiled.
function(allocmark_cold_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
  set_target_properties(${target} PROPERTIES ALLOCMARK_FEWER_KINDS ON)
  # It reads what comes from strangers, so overruns end the process instead of going on; timed code has no such checks.
  target_compile_options(
    ${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Og;-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
endfunction()

# allocmark_cold_sources(LEFT file...): files of this folder for allocmark_cold. LEFT becomes those that the room or program
# compiles itself: none where there is an allocmark_cold, else all.
function(allocmark_cold_sources left)
  if(ALLOCMARK_COLD_UNITS GREATER 0)
    list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
    list(FILTER ARGN INCLUDE REGEX "[.]cc$")
    set_property(GLOBAL APPEND PROPERTY allocmark_cold_sources ${ARGN})
    set(${left} "" PARENT_SCOPE)
  else()
    set(${left} ${ARGN} PARENT_SCOPE)
  endif()
endfunction()

# allocmark_cold_room(TARGET): the room's code is in allocmark_cold, which needs what the room needs.
function(allocmark_cold_room target)
  set_property(GLOBAL APPEND PROPERTY allocmark_cold_rooms ${target})
  target_link_libraries(${target} INTERFACE $<LINK_ONLY:allocmark_cold>)
endfunction()

# allocmark_cold_library(): called when all rooms are known. Neighbouring files are one unit, and all units have about the same
# size, so that two cores end together.
function(allocmark_cold_library)
  if(NOT ALLOCMARK_COLD_UNITS GREATER 0)
    return()
  endif()
  get_property(sources GLOBAL PROPERTY allocmark_cold_sources)
  get_property(rooms GLOBAL PROPERTY allocmark_cold_rooms)
  add_library(allocmark_cold STATIC ${sources})
  target_link_libraries(allocmark_cold PUBLIC ${rooms})
  allocmark_cold_options(allocmark_cold)
  # A unit fills up to 1.2 GB before g++ looks for what it no longer needs; that would take a tenth of the time.
  target_compile_options(allocmark_cold PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=600000>)
  set_target_properties(allocmark_cold PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(all_bytes 0)
  foreach(source ${sources})
    file(SIZE ${source} size_bytes)
    math(EXPR all_bytes "${all_bytes} + ${size_bytes}")
  endforeach()
  set(before_bytes 0)
  foreach(source ${sources})
    math(EXPR unit "${ALLOCMARK_COLD_UNITS} * ${before_bytes} / ${all_bytes}")
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP cold_${unit})
    file(SIZE ${source} size_bytes)
    math(EXPR before_bytes "${before_bytes} + ${size_bytes}")
  endforeach()
endfunction()
