# Finds a CUDA toolkit, 12 or newer, as scripts/setup.sh does: what the user names, then nvcc on the PATH, then the usual
# folders, then what scripts/run.sh took from PyPI. Its nvcc becomes the CUDA compiler.
if(NOT CUDAToolkit_ROOT AND NOT DEFINED ENV{CUDAToolkit_ROOT})
  set(allocmark_nvcc $ENV{CUDACXX})
  if(CMAKE_CUDA_COMPILER)
    set(allocmark_nvcc ${CMAKE_CUDA_COMPILER})
  endif()
  if(NOT allocmark_nvcc)
    find_program(allocmark_found_nvcc nvcc NO_CACHE
                 HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin
                 PATHS /usr/local/cuda/bin /opt/cuda/bin ${PROJECT_SOURCE_DIR}/build/cuda-toolkit/nvidia/cu13/bin)
    if(allocmark_found_nvcc)
      set(allocmark_nvcc ${allocmark_found_nvcc})
    endif()
  endif()
  if(EXISTS "${allocmark_nvcc}")
    get_filename_component(allocmark_nvcc ${allocmark_nvcc} REALPATH)
    get_filename_component(allocmark_toolkit ${allocmark_nvcc}/../.. ABSOLUTE)
    set(CUDAToolkit_ROOT ${allocmark_toolkit} CACHE PATH "Folder of the CUDA toolkit")
  endif()
endif()
if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
  # CMake 3.25 sets a property of this target without asking whether there is one; CUDA 13 has none.
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit 12 QUIET)
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
  string(APPEND allocmark_problems
    "There is no CUDA toolkit (12 or newer; got '${CUDAToolkit_VERSION}' in '${CUDAToolkit_ROOT}'). No GPU is needed, but its "
    "compiler, headers and runtime are. One of:\n"
    "  scripts/run.sh                        takes these parts from PyPI into build/cuda-toolkit\n"
    "  -DCUDAToolkit_ROOT=/usr/local/cuda    where yours is somewhere else\n")
elseif(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
