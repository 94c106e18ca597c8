# CLI11 as the headers that it is.
find_path(CLI11_INCLUDE CLI/CLI.hpp)
mark_as_advanced(CLI11_INCLUDE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CLI11 REQUIRED_VARS CLI11_INCLUDE)
if(CLI11_FOUND AND NOT TARGET CLI11::CLI11)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  target_include_directories(CLI11::CLI11 SYSTEM INTERFACE ${CLI11_INCLUDE})
endif()
