# attile_add_backend(NAME [DYNAMIC_TLS] SOURCES ... [LIBRARIES ...])
#
# Makes a backend from sources that define ATTILE_BACKEND_ENTRY_SYMBOL, of type attile_backend_entry_fn. A name in ATTILE_BUILTIN_BACKENDS
# becomes the object library attile_backend_<name>, linked into libattile with an entry of its own name; any other becomes the plugin
# libattile_backend_<name>.so, on Windows .dll, in attile-<major>/ beside libattile.
#
# DYNAMIC_TLS: a library linked in has too many thread-local variables for the room that glibc keeps for libraries which are loaded late.
#
# attile_add_transport(NAME SOURCES ... [LIBRARIES ...])
#
# Makes a transport from sources that define ATTILE_COMM_ENTRY_SYMBOL, of type attile_comm_plugin_entry_fn, for the name ATTILE_COMM_NAME: the
# plugin libattile_comm_<name>.so beside the backends.
set(ATTILE_PLUGIN_MAPS ${CMAKE_CURRENT_LIST_DIR})

# The library exports what the linker's map names, whatever its sources say. On Windows it exports what they say (__declspec(dllexport)).
function(attile_export_only target map)
  if(NOT WIN32)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  endif()
endfunction()

# What all plugins have. `kind` is backend or comm.
function(attile_make_plugin target kind name)
  set(map ${ATTILE_PLUGIN_MAPS}/attile_${kind}.map)
  set_target_properties(${target} PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${ATTILE_LIBRARY_DIR}/${ATTILE_BACKEND_SUBDIR})
  attile_export_only(${target} ${map})
  if(ATTILE_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--undefined-version)
  endif()
  target_link_libraries(${target} PRIVATE attile_static_runtime attile_all_defined)
  if(ATTILE_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${ATTILE_INSTALL_LIBRARY_DIR}/${ATTILE_BACKEND_SUBDIR} COMPONENT ${kind}_${name})
  endif()
endfunction()

function(attile_add_backend name)
  cmake_parse_arguments(ARG "DYNAMIC_TLS" "" "SOURCES;LIBRARIES" ${ARGN})
  set(target attile_backend_${name})
  if(name IN_LIST ATTILE_BUILTIN_BACKENDS)
    add_library(${target} OBJECT ${ARG_SOURCES})
    target_compile_definitions(${target} PRIVATE ATTILE_BACKEND_ENTRY_SYMBOL=attile_backend_entry_v1_${name} ATTILE_ENTRY_EXPORT=)
  else()
    add_library(${target} MODULE ${ARG_SOURCES})
    target_compile_definitions(${target} PRIVATE ATTILE_BACKEND_ENTRY_SYMBOL=attile_backend_entry_v1)
    attile_make_plugin(${target} backend ${name})
  endif()
  target_compile_definitions(${target} PRIVATE ATTILE_BACKEND_VERSION="${PROJECT_VERSION}")
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE attile_headers attile_compiler attile_hardening ${ARG_LIBRARIES})
  if(ARG_DYNAMIC_TLS)
    target_compile_definitions(${target} PRIVATE ATTILE_DYNAMIC_TLS)
  else()
    target_link_libraries(${target} PRIVATE attile_embedded)
  endif()
endfunction()

function(attile_add_transport name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(target attile_comm_${name})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_compile_definitions(${target} PRIVATE ATTILE_COMM_ENTRY_SYMBOL=attile_comm_entry_v1 ATTILE_COMM_NAME="${name}" ATTILE_COMM_VERSION="${PROJECT_VERSION}")
  attile_make_plugin(${target} comm ${name})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE attile_headers attile_compiler attile_hardening attile_embedded ${ARG_LIBRARIES})
endfunction()
