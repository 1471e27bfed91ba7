# The parts of the runtime: stages, which are static libraries inside libvmem.so, and backends, which it loads at run time.

# Where the build tree keeps libvmem.so; the backends lie in vmem/ beside it, as they do when installed.
set(VMEM_LIBRARY_DIR "${PROJECT_BINARY_DIR}/lib")
set(VMEM_BACKEND_DIR "${VMEM_LIBRARY_DIR}/vmem")

# The includes of everything in the tree: <vmem/x.hpp> and "runtime/stage/x.hpp".
function(vmem_add_includes target)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>")
endfunction()

# vmem_add_stage(NAME memory [UNITY] SOURCES a.cpp ... LIBRARIES vmem_support ...)
# Adds the static library vmem_<NAME>. LIBRARIES are public: who links a stage also gets what it uses. UNITY compiles its
# sources as one: for the stages of the hot path, whose calls cross files.
function(vmem_add_stage)
  cmake_parse_arguments(PARSE_ARGV 0 arg "UNITY" "NAME" "SOURCES;LIBRARIES")
  set(target vmem_${arg_NAME})
  add_library(${target} STATIC ${arg_SOURCES})
  vmem_configure_target(${target})
  vmem_add_includes(${target})
  target_link_libraries(${target} PUBLIC ${arg_LIBRARIES} Threads::Threads)
  # Not in Debug and with sanitizers: there every source has to stand alone, and clang-tidy wants to see each.
  if(arg_UNITY AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT VMEM_SANITIZER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# vmem_refuse_undefined(TARGET): a name that nothing defines is an error of the link, not of loading. clang's sanitizers leave
# their own names open in shared objects.
function(vmem_refuse_undefined target)
  if(NOT (VMEM_SANITIZER AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# vmem_add_backend(NAME host SOURCES a.cpp ... LIBRARIES vmem_support ...)
# Adds the module vmem_backend_<NAME>: libvmem_backend_<NAME>.so, with only its entry point visible.
function(vmem_add_backend)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
  set(target vmem_backend_${arg_NAME})
  add_library(${target} MODULE ${arg_SOURCES})
  vmem_configure_target(${target})
  vmem_add_includes(${target})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} Threads::Threads)
  # What static libraries bring along (the runtime's support, for one) stays inside the module.
  target_link_options(${target} PRIVATE "-Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/backend.map")
  vmem_refuse_undefined(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${VMEM_BACKEND_DIR}")
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/vmem")
  set_property(GLOBAL APPEND PROPERTY VMEM_BACKENDS ${target})
endfunction()

# <vmem/version.h>. The build id says what the objects that library and backends exchange depend on, and no more, so that a
# commit does not compile everything again.
set(VMEM_BUILD_ID
  "${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${VMEM_SANITIZER}")
string(STRIP "${VMEM_BUILD_ID}" VMEM_BUILD_ID)
configure_file("${PROJECT_SOURCE_DIR}/include/vmem/version.h.in" "${PROJECT_BINARY_DIR}/include/vmem/version.h" @ONLY)

# vmem_use_commit(TARGET): TARGET may #include "vmem_commit.hpp", which defines VMEM_COMMIT as the commit it is built from:
# "<hash>", "<hash>-dirty" where files differ from it, or "unknown" outside a clone.
function(vmem_use_commit target)
  if(NOT TARGET vmem_commit)
    add_custom_target(vmem_commit
      COMMAND "${CMAKE_COMMAND}" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}"
        -D "OUTPUT=${PROJECT_BINARY_DIR}/commit/vmem_commit.hpp" -P "${PROJECT_SOURCE_DIR}/cmake/VmemCommit.cmake"
      BYPRODUCTS "${PROJECT_BINARY_DIR}/commit/vmem_commit.hpp"
      COMMENT "Reading the commit")
  endif()
  add_dependencies(${target} vmem_commit)
  target_include_directories(${target} PRIVATE "${PROJECT_BINARY_DIR}/commit")
endfunction()
