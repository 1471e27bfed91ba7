# vmem_cuda_embed_kernels(TARGET SOURCE): compiles backends/kernels for several architectures where nvcc is found, and has
# SOURCE embed the result. Without nvcc the backend looks for a compiler at run time.
option(VMEM_CUDA_EMBED_KERNELS "Compile the CUDA kernels when vmem is built, where nvcc is found" ON)

function(vmem_cuda_embed_kernels target source)
  find_program(VMEM_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NOT VMEM_CUDA_EMBED_KERNELS OR NOT VMEM_NVCC)
    message(STATUS "CUDA kernels: compiled at run time, where NVRTC is found")
    return()
  endif()

  # The text without the quotes around it.
  set(text "")
  foreach(part IN ITEMS prelude data compute)
    set(file "${PROJECT_SOURCE_DIR}/backends/kernels/${part}.cu.inc")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(READ "${file}" part_text)
    string(REPLACE "R\"vmem(" "" part_text "${part_text}")
    string(REPLACE ")vmem\"" "" part_text "${part_text}")
    string(APPEND text "${part_text}")
  endforeach()
  set(kernel_source "${CMAKE_CURRENT_BINARY_DIR}/kernels.cu")
  file(CONFIGURE OUTPUT "${kernel_source}" CONTENT "${text}" @ONLY)

  # Machine code for the generations that nvcc knows, and PTX of the oldest, which newer drivers compile for newer GPUs.
  execute_process(COMMAND "${VMEM_NVCC}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  set(arguments "")
  foreach(architecture IN ITEMS 70 75 80 86 89 90 100 120)
    if(NOT known MATCHES "sm_${architecture}(\n|$)")
      continue()
    endif()
    if(NOT arguments)
      list(APPEND arguments "-gencode=arch=compute_${architecture},code=compute_${architecture}")
    endif()
    list(APPEND arguments "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  if(NOT arguments)
    message(STATUS "CUDA kernels: ${VMEM_NVCC} knows no architecture of these, they are compiled at run time")
    return()
  endif()
  set(fatbin "${CMAKE_CURRENT_BINARY_DIR}/kernels.fatbin")
  add_custom_command(OUTPUT "${fatbin}"
    COMMAND "${VMEM_NVCC}" -fatbin -std=c++14 --threads 2 ${arguments} -o "${fatbin}" "${kernel_source}"
    DEPENDS "${kernel_source}"
    COMMENT "Compiling CUDA kernels" VERBATIM)
  set_source_files_properties("${source}" PROPERTIES
    COMPILE_DEFINITIONS "VMEM_CUDA_FATBIN=\"${fatbin}\""
    OBJECT_DEPENDS "${fatbin}")
  message(STATUS "CUDA kernels: compiled by ${VMEM_NVCC}")
endfunction()
