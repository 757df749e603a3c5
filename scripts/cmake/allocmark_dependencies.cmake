# Third-party libraries: found on the system (Debian 12 or Ubuntu 24.04 packages), never copied here.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
find_package(Boost 1.74 REQUIRED CONFIG) # headers only: Boost.Math

if(ALLOCMARK_CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
    # CMake 3.25 sets a property of this target without asking whether there is one; CUDA 13 has none.
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12 REQUIRED)
endif()

if(ALLOCMARK_TESTS)
  # Catch2 3 where there is one (Ubuntu 24.04), else 2 (Debian 12); tests/catch.h hides the difference.
  find_package(Catch2 REQUIRED)
  add_library(allocmark_catch INTERFACE)
  if(TARGET Catch2::Catch2WithMain)
    target_link_libraries(allocmark_catch INTERFACE Catch2::Catch2WithMain fmt::fmt)
  else()
    add_library(allocmark_catch_main OBJECT ${PROJECT_SOURCE_DIR}/tests/catch2_main.cc)
    target_link_libraries(allocmark_catch_main PUBLIC Catch2::Catch2)
    target_link_libraries(allocmark_catch INTERFACE Catch2::Catch2 fmt::fmt $<TARGET_OBJECTS:allocmark_catch_main>)
  endif()
endif()

if(ALLOCMARK_CUDA)
  # The runtime must be the shared one: simcuda takes its place by name (libcudart.so.N).
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75 90)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25 does not know that nvcc 12 and newer take -std=c++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
endif()
