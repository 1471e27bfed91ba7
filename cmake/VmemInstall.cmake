# What `cmake --install` lays down, besides the command (tools/vmem) and the backends (vmem_add_backend): the library, its
# headers, the CMake package and the pkg-config file. All of it may be moved after installing.
include(CMakePackageConfigHelpers)

install(TARGETS vmem EXPORT vmem
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/vmem")
install(EXPORT vmem NAMESPACE vmem:: FILE vmemTargets.cmake DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/vmemConfig.cmake.in" "${PROJECT_BINARY_DIR}/vmemConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/vmemConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/vmemConfig.cmake" "${PROJECT_BINARY_DIR}/vmemConfigVersion.cmake"
  DESTINATION "${package_dir}")

# From the folder of vmem.pc back to the prefix.
cmake_path(SET pkgconfig_dir NORMALIZE "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${pkgconfig_dir}" OUTPUT_VARIABLE VMEM_PC_TO_PREFIX)
configure_file("${PROJECT_SOURCE_DIR}/cmake/vmem.pc.in" "${PROJECT_BINARY_DIR}/vmem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/vmem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
