# What `cmake --install` copies, and the Debian package that `cpack -G DEB` makes of it. The program finds its data and
# libraries from its own place, so the whole tree can be moved afterwards.
include(CMakePackageConfigHelpers)
set(allocmark_package_folder lib/cmake/allocmark)

install(TARGETS allocmark simcuda-run RUNTIME DESTINATION bin)
# The real CUDA runtime comes along (NVIDIA allows it for this library), since the machine may have no toolkit.
# LD_LIBRARY_PATH is asked before this path, so that simcuda still takes its place.
set_target_properties(allocmark PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/allocmark")
get_target_property(allocmark_cudart CUDA::cudart IMPORTED_LOCATION)
if(NOT allocmark_cudart)
  set(allocmark_cudart ${CUDA_cudart_LIBRARY})
endif()
get_filename_component(allocmark_cudart ${allocmark_cudart} REALPATH)
install(FILES ${allocmark_cudart} DESTINATION lib/allocmark RENAME libcudart.so.${CUDAToolkit_VERSION_MAJOR})

# simcuda under its three names, with its profiles.
target_include_directories(simcuda INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS simcuda EXPORT allocmark_targets LIBRARY DESTINATION lib/simcuda)
install(TARGETS simcuda_preload LIBRARY DESTINATION lib/simcuda)
if(TARGET simcuda_cupti)
  install(TARGETS simcuda_cupti LIBRARY DESTINATION lib/simcuda NAMELINK_SKIP)
endif()
install(FILES ${PROJECT_BINARY_DIR}/lib/simcuda/libcuda.so.1 ${PROJECT_BINARY_DIR}/lib/simcuda/libnvidia-ml.so.1
        DESTINATION lib/simcuda)
install(DIRECTORY harness/simcuda/profiles DESTINATION lib/simcuda)
install(DIRECTORY harness/simcuda/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/allocmark FILES_MATCHING
        PATTERN "simcu*.h" PATTERN core EXCLUDE PATTERN shim EXCLUDE PATTERN profiles EXCLUDE PATTERN example EXCLUDE
        PATTERN launcher EXCLUDE)

# find_package(allocmark)
install(EXPORT allocmark_targets NAMESPACE allocmark:: FILE allocmark-targets.cmake DESTINATION ${allocmark_package_folder})
configure_package_config_file(scripts/build/cmake/allocmark-config.cmake.in ${PROJECT_BINARY_DIR}/generated/allocmark-config.cmake
                              INSTALL_DESTINATION ${allocmark_package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/allocmark-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/allocmark-config.cmake
              ${PROJECT_BINARY_DIR}/generated/allocmark-config-version.cmake
              scripts/build/cmake/allocmark_add_simcuda_test.cmake
        DESTINATION ${allocmark_package_folder})

# Data, report scripts, and the definitions that the report shows.
install(DIRECTORY workloads/recorded workloads/scenarios DESTINATION share/allocmark/workloads)
install(DIRECTORY scripts/report/ DESTINATION share/allocmark/report PATTERN __pycache__ EXCLUDE PATTERN "*.sh" EXCLUDE
        PATTERN "requirements*" EXCLUDE)
install(FILES results/DEFINITIONS.md results/FAILURES.md results/TIMES.md results/FORMAT.md results/schema.json
        DESTINATION share/allocmark/report/results)
install(FILES results/answer/ANSWER.md DESTINATION share/allocmark/report/results/answer)
install(FILES results/compare/VERDICTS.md DESTINATION share/allocmark/report/results/compare)
install(FILES harness/tools/qualify/thresholds.json DESTINATION share/allocmark)
install(PROGRAMS scripts/record/record_pytorch.py scripts/record/capture_usdt.py scripts/record/small_values.py
                 scripts/build/build_torch_capture.sh DESTINATION share/allocmark)
install(TARGETS allocmark_capture LIBRARY DESTINATION lib/allocmark)
install(FILES harness/tools/capture/preload/torch_capture.cc harness/tools/capture/preload/capture.h DESTINATION share/allocmark/capture)
install(FILES allocators/examples/pluggable_example.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# For fleets: jobs and manifests, and the schema of what qualify writes.
install(DIRECTORY scripts/fleet/slurm scripts/fleet/kubernetes DESTINATION share/allocmark/fleet USE_SOURCE_PERMISSIONS)
install(FILES harness/tools/qualify/schema.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/harness/qualify)

# The manual page and the shells' completions, where each shell looks.
set(allocmark_texts ${PROJECT_BINARY_DIR}/generated/texts)
install(FILES ${allocmark_texts}/man1/allocmark.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${allocmark_texts}/bash/allocmark DESTINATION share/bash-completion/completions)
install(FILES ${allocmark_texts}/zsh/_allocmark DESTINATION share/zsh/site-functions)
install(FILES ${allocmark_texts}/fish/allocmark.fish DESTINATION share/fish/vendor_completions.d)

# Documents. Debian looks for the licence under the name copyright.
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY harness/simcuda/example/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/simcuda)
foreach(page workloads/README workloads/BRING_YOUR_JOB workloads/FIDELITY workloads/GENERATORS workloads/SCENARIOS
             workloads/SPEED workloads/TRACES allocators/README allocators/BACKENDS allocators/CACHING allocators/GATE
             harness/tools/qualify/README harness/tools/qualify/QUALIFY_A_NODE harness/tools/qualify/TESTS harness/tools/qualify/EXPORTS
             harness/tools/qualify/FAULTS harness/tools/qualify/fleet/README harness/tools/qualify/fleet/MERGE harness/tools/threads/README
             harness/tools/conformance/RACES scripts/fleet/README scripts/fleet/SLURM harness/simcuda/README harness/simcuda/MODEL
             harness/simcuda/TESTING results/README results/BUNDLES results/answer/ANSWER)
  get_filename_component(room ${page} DIRECTORY)
  install(FILES ${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${room})
endforeach()
install(FILES results/DEFINITIONS.md results/FAILURES.md results/TIMES.md results/FORMAT.md results/PUBLISH.md results/BUNDLES.md
              results/compare/VERDICTS.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME allocmark)
set(CPACK_PACKAGE_VENDOR "the allocmark authors")
set(CPACK_PACKAGE_CONTACT "the allocmark authors <allocmark@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Stress tests and benchmarks for GPU memory allocators")
set(CPACK_PACKAGE_DESCRIPTION
    "Replays what real programs do with memory on an allocator, and says for each config string how long its calls take, \
whether it runs out of memory, and how much it wastes. Needs no GPU: one is simulated where there is none.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3") # makes the report page
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # needs dpkg-dev and file
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib/simcuda)
include(CPack)
