# allocmark_add_simcuda_test(NAME TARGET [ARGS argument...] [PROFILE NAME|FILE.json] [DEVICES count]
#                            [ENVIRONMENT NAME=VALUE...])
# A CTest test that runs the program TARGET with the simulated CUDA runtime in place of the real one: no GPU is needed.
# TARGET links the shared runtime (CUDA::cudart, or CUDA_RUNTIME_LIBRARY Shared, which is set here where TARGET does not
# say), or allocmark::simcuda itself, which then needs no CUDA toolkit to link. TARGET may also be a program's path.
function(allocmark_add_simcuda_test name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PROFILE;DEVICES" "ARGS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "allocmark_add_simcuda_test(${name}): not known here: ${arg_UNPARSED_ARGUMENTS}; "
                        "it takes ARGS, PROFILE, DEVICES and ENVIRONMENT")
  endif()
  if(TARGET ${target})
    get_target_property(runtime ${target} CUDA_RUNTIME_LIBRARY)
    if(NOT runtime)
      set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
    endif()
  elseif(NOT IS_ABSOLUTE "${target}")
    message(FATAL_ERROR "allocmark_add_simcuda_test(${name}): '${target}' is neither a target nor an absolute path")
  endif()
  add_test(NAME ${name} COMMAND ${target} ${arg_ARGS})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT_MODIFICATION
                                            "LD_LIBRARY_PATH=path_list_prepend:${ALLOCMARK_SIMCUDA_FOLDER}")
  set(environment ${arg_ENVIRONMENT})
  if(arg_PROFILE)
    list(APPEND environment "SIMCUDA_PROFILE=${arg_PROFILE}")
  endif()
  if(arg_DEVICES)
    list(APPEND environment "SIMCUDA_DEVICES=${arg_DEVICES}")
  endif()
  if(environment)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${environment})
  endif()
endfunction()
