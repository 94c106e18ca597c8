# For toolchain files: libraries that are headers alone are of no system. Links to them, for their folder holds this system's C library, too.
# Sets ATTILE_HEADERS_OF_HOST, the folder to look in, and finds what is beside this file: GoogleTest from its sources, CLI11 as headers.
set(ATTILE_HEADERS_OF_HOST ${CMAKE_BINARY_DIR}/headers_of_host)
get_property(trying GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT trying)
  file(MAKE_DIRECTORY ${ATTILE_HEADERS_OF_HOST}/include)
  foreach(library hwy CLI)
    if(EXISTS /usr/include/${library})
      file(CREATE_LINK /usr/include/${library} ${ATTILE_HEADERS_OF_HOST}/include/${library} SYMBOLIC)
    endif()
  endforeach()
endif()
set(CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
