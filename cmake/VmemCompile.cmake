# How every target of vmem is compiled: language level, warnings, visibility, sanitizers.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(VMEM_CCACHE ccache)
  if(VMEM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER "${VMEM_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${VMEM_CCACHE}")
  endif()
endif()

if(VMEM_SANITIZER)
  add_compile_options("-fsanitize=${VMEM_SANITIZER}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${VMEM_SANITIZER}")
  # clang tells its sanitizers in another way; sources, and the C++ library, ask in g++'s.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    if(VMEM_SANITIZER MATCHES "thread")
      add_compile_definitions(__SANITIZE_THREAD__=1)
    elseif(VMEM_SANITIZER MATCHES "address")
      add_compile_definitions(__SANITIZE_ADDRESS__=1)
    endif()
  endif()
  # clang links a C program without what C++ libraries need of a sanitizer.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_link_options($<$<LINK_LANGUAGE:C>:-fsanitize-link-c++-runtime>
      $<$<LINK_LANGUAGE:C>:-lstdc++>)
  endif()
endif()

# vmem_configure_target(TARGET): the settings that all of vmem's own targets share.
function(vmem_configure_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 and 13 see copies out of bounds in std::string and std::vector that are none (gcc bugs 105651, 105329), most
    # of them at -O3; with a sanitizer also values that are not set. clang's warnings stay on.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
    if(VMEM_SANITIZER)
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
  endif()
  if(VMEM_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
