# The language ASC for CMake, as find_package(ASC) of CANN gives it: its compiler is bisheng of this folder.
get_filename_component(AUTOFUSE_FAKE_CANN "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
set(ASC_FOUND TRUE)
include("${CMAKE_CURRENT_LIST_DIR}/operators.cmake")
