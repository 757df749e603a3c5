# The files that the program reads lie below share/allocmark, seen from the folder above bin: in an installed tree they
# are copies, in a build folder links to the sources. So the program knows no path of the machine that built it.
set(allocmark_share ${PROJECT_BINARY_DIR}/share/allocmark)
file(MAKE_DIRECTORY ${allocmark_share}/workloads)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/workloads/recorded ${allocmark_share}/workloads/recorded SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/workloads/scenarios ${allocmark_share}/workloads/scenarios SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/scripts/report ${allocmark_share}/report SYMBOLIC)
