# libattile as an archive of one object, for a program that carries its backends. The linker joins the objects; then everything but the names
# of attile.map becomes local, so that nothing clashes with the program's own: neither names of the core and the backends, nor templates of
# another Highway or of another libattile. Included by core/CMakeLists.txt, which has collected builtin_targets.
include_guard(GLOBAL)
foreach(name IN LISTS ATTILE_BUILTIN_BACKENDS)
  if(NOT name MATCHES "^(reference|cpu)$")
    message(FATAL_ERROR "ATTILE_BUILTIN_BACKENDS names '${name}'; a static libattile holds reference and cpu, and loads the others as plugins")
  endif()
endforeach()
# With clang CMake finds lld, which has no such switch before LLVM 19.
set(linker "")
foreach(candidate IN ITEMS ${CMAKE_LINKER} ld.bfd ld)
  execute_process(COMMAND ${candidate} --help OUTPUT_VARIABLE switches ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0 AND switches MATCHES "--force-group-allocation")
    set(linker ${candidate})
    break()
  endif()
endforeach()
if(NOT linker OR NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "a static libattile is made by a linker that knows --force-group-allocation (GNU ld 2.29 or later) and by objcopy; CMAKE_LINKER is '${CMAKE_LINKER}', CMAKE_OBJCOPY '${CMAKE_OBJCOPY}'")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS attile.map)
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/attile.map names REGEX "^ +attile_")
list(TRANSFORM names REPLACE "[ ;]+" "")
list(JOIN names "\n" names)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/attile.names "${names}\n")

set(objects $<TARGET_OBJECTS:attile_core>)
foreach(target IN LISTS builtin_targets)
  list(APPEND objects $<TARGET_OBJECTS:${target}>)
endforeach()
set(joined ${CMAKE_CURRENT_BINARY_DIR}/attile.o)
# Groups are dissolved: the linker would drop one that another file of the program has, too, and with it what is local here.
add_custom_command(OUTPUT ${joined}
  COMMAND ${linker} -r --force-group-allocation -o ${joined} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${CMAKE_CURRENT_BINARY_DIR}/attile.names ${joined}
  DEPENDS attile_core ${builtin_targets} ${objects} ${CMAKE_CURRENT_BINARY_DIR}/attile.names
  COMMENT "Joining the objects of libattile" COMMAND_EXPAND_LISTS VERBATIM)
add_library(attile STATIC ${joined})
add_library(attile::attile ALIAS attile)
set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
target_include_directories(attile INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# A program in C links it as well: what the compiler of C++ links by itself is named.
set(runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM runtime ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_DUPLICATES runtime)
set_target_properties(attile PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(attile INTERFACE Threads::Threads ${CMAKE_DL_LIBS} ${runtime})
# Backends hold pointers into the library for as long as the process lives: a shared library that holds it stays loaded.
target_link_options(attile INTERFACE -Wl,-z,nodelete)
set(ATTILE_STATIC_LIBRARIES ${runtime} ${CMAKE_DL_LIBS} ${CMAKE_THREAD_LIBS_INIT})
list(TRANSFORM ATTILE_STATIC_LIBRARIES REPLACE "^([^-].*)$" "-l\\1")
list(JOIN ATTILE_STATIC_LIBRARIES " " ATTILE_STATIC_LIBRARIES)
set(ATTILE_STATIC_LIBRARIES " ${ATTILE_STATIC_LIBRARIES} -Wl,-z,nodelete" PARENT_SCOPE)
set(ATTILE_CONFIG_DEPENDENCIES "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n" PARENT_SCOPE)
