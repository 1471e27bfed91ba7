# Tests are GoogleTest executables, each case a ctest of its own.
include(GoogleTest)

# What every program of this build that a test starts is given.
set(VMEM_TEST_ENVIRONMENT "VMEM_BACKEND_DIR=${VMEM_BACKEND_DIR}")
if(VMEM_SANITIZER MATCHES "thread")
  list(APPEND VMEM_TEST_ENVIRONMENT
    "TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
endif()

# main() of the tests.
add_library(vmem_test_main STATIC "${PROJECT_SOURCE_DIR}/tests/test_main.cpp")
vmem_configure_target(vmem_test_main)
target_link_libraries(vmem_test_main PUBLIC GTest::gmock GTest::gtest)
if(VMEM_TESTS_FAIL_ON_SKIP)
  target_compile_definitions(vmem_test_main PRIVATE VMEM_TESTS_FAIL_ON_SKIP)
endif()

# All tests are compiled alike, so one precompiled header serves them all.
if(VMEM_PRECOMPILE_HEADERS)
  file(WRITE "${PROJECT_BINARY_DIR}/vmem_test_headers.cpp" "")
  # An executable like the tests, as code for libraries is compiled with other flags.
  add_executable(vmem_test_headers "${PROJECT_BINARY_DIR}/vmem_test_headers.cpp")
  vmem_configure_target(vmem_test_headers)
  target_link_libraries(vmem_test_headers PRIVATE vmem_test_main Threads::Threads)
  target_precompile_headers(vmem_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

# vmem_add_test(NAME vmem_memory_tests SOURCES a_test.cpp ... LIBRARIES vmem_memory ...
#               [TIMEOUT seconds] [ENVIRONMENT VAR=value ...] [LABELS label ...])
# Tests find the backends of this build through VMEM_BACKEND_DIR. A case that runs longer than TIMEOUT (60 s) fails.
function(vmem_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;LIBRARIES;ENVIRONMENT;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(VMEM_SANITIZER)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  vmem_configure_target(${arg_NAME})
  vmem_add_includes(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBRARIES} vmem_test_main)
  if(VMEM_PRECOMPILE_HEADERS)
    target_precompile_headers(${arg_NAME} REUSE_FROM vmem_test_headers)
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  set(environment ${VMEM_TEST_ENVIRONMENT} ${arg_ENVIRONMENT})
  gtest_discover_tests(${arg_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
  # gtest_discover_tests flattens a property that is a list, so the environment is set from a file of its own.
  set(environment_file "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_environment.cmake")
  file(WRITE "${environment_file}"
    "if(${arg_NAME}_TESTS)\n  set_tests_properties(\${${arg_NAME}_TESTS} PROPERTIES ENVIRONMENT [==[${environment}]==])\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${environment_file}")
  # Modules that a test loads at run time are no link dependency, yet have to be there.
  get_property(backends GLOBAL PROPERTY VMEM_BACKENDS)
  if(backends)
    add_dependencies(${arg_NAME} ${backends})
  endif()
endfunction()
