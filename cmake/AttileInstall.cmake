# Installation: headers, library, find_package(attile) and pkg-config, and what other languages build with. Components: runtime (the library),
# blas (libattile_blas), ggml (libggml-attile, where ATTILE_GGML_SOURCE is set), onnxruntime (libattile_onnxruntime, where ATTILE_ONNXRUNTIME_INCLUDE is set), dev (what a compiler needs), tools, python (only when asked for) and backend_<name> (a plugin; see AttileBackend.cmake). Nothing installed names the prefix, so an installation may be moved; the one exception
# is the directory for backends that libattile searches last, which is fixed when it is built.
include(CMakePackageConfigHelpers)

install(TARGETS attile EXPORT attileTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/include/attile/attile.h ${PROJECT_SOURCE_DIR}/include/attile/attile_backend.h
  ${PROJECT_SOURCE_DIR}/include/attile/attile_distributed.h ${PROJECT_SOURCE_DIR}/include/attile/attile_comm_plugin.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attile COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/cpp/attile.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# The bindings that are built by those who use them: the Rust crates, and the Fortran module for another compiler than the one found here. The
# header lies where fpm.toml looks for it.
set(ATTILE_SHARE_DIR ${CMAKE_INSTALL_DATAROOTDIR}/attile)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/rust/attile ${PROJECT_SOURCE_DIR}/bindings/rust/attile-sys
  DESTINATION ${ATTILE_SHARE_DIR}/bindings/rust COMPONENT dev PATTERN target EXCLUDE PATTERN Cargo.lock EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/rust/Cargo.toml ${PROJECT_SOURCE_DIR}/bindings/rust/README.md DESTINATION ${ATTILE_SHARE_DIR}/bindings/rust COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/fortran/src DESTINATION ${ATTILE_SHARE_DIR}/bindings/fortran COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/fortran/fpm.toml DESTINATION ${ATTILE_SHARE_DIR}/bindings/fortran COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/include/attile/attile.h DESTINATION ${ATTILE_SHARE_DIR}/include/attile COMPONENT dev)
foreach(language backend c cpp distributed fortran llm rust python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${language} DESTINATION ${ATTILE_SHARE_DIR}/examples COMPONENT dev PATTERN CMakeLists.txt EXCLUDE)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/examples/data/attention_small.bin DESTINATION ${ATTILE_SHARE_DIR}/examples/data COMPONENT dev)
# Where Debian's Python looks; elsewhere pip installs bindings/python.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/python/src/attile DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
if(TARGET python_native)
  install(TARGETS python_native LIBRARY DESTINATION lib/python3/dist-packages/attile COMPONENT python EXCLUDE_FROM_ALL)
endif()

set(ATTILE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attile)
install(EXPORT attileTargets NAMESPACE attile:: DESTINATION ${ATTILE_CMAKE_DIR} COMPONENT dev)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attileConfigVersion.cmake COMPATIBILITY SameMajorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/attileConfig.cmake.in ${PROJECT_BINARY_DIR}/attileConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attileConfig.cmake ${PROJECT_BINARY_DIR}/attileConfigVersion.cmake
  DESTINATION ${ATTILE_CMAKE_DIR} COMPONENT dev)

# pkg-config: the prefix is computed from where attile.pc itself lies, if the library directory is below the prefix.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(ATTILE_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(ATTILE_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(ATTILE_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(ATTILE_PC_PREFIX "\${pcfiledir}/${up}")
  set(ATTILE_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(ATTILE_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# The Fortran module's files are compiled by whoever uses them, with whatever compiler that is.
set(ATTILE_PC_FORTRANDIR "\${prefix}/${ATTILE_SHARE_DIR}/bindings/fortran/src")
if(IS_ABSOLUTE "${CMAKE_INSTALL_DATAROOTDIR}")
  set(ATTILE_PC_FORTRANDIR ${ATTILE_SHARE_DIR}/bindings/fortran/src)
endif()
include(${PROJECT_SOURCE_DIR}/bindings/fortran/sources.cmake)
list(TRANSFORM ATTILE_FORTRAN_SOURCES PREPEND "\${fortrandir}/" OUTPUT_VARIABLE ATTILE_PC_FORTRAN_SOURCES)
list(JOIN ATTILE_PC_FORTRAN_SOURCES " " ATTILE_PC_FORTRAN_SOURCES)
configure_file(${CMAKE_CURRENT_LIST_DIR}/attile.pc.in ${PROJECT_BINARY_DIR}/attile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attile.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
if(ATTILE_FORTRAN)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/attile-fortran.pc.in ${PROJECT_BINARY_DIR}/attile-fortran.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/attile-fortran.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endif()
if(TARGET attile_blas)
  install(EXPORT attileBlasTargets NAMESPACE attile:: DESTINATION ${ATTILE_CMAKE_DIR} COMPONENT dev)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/attile-blas.pc.in ${PROJECT_BINARY_DIR}/attile-blas.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/attile-blas.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT ATTILE_STATIC)
  include(AttilePackaging)
endif()
