# Installation: headers, library, find_package(attile) and pkg-config. Components: runtime (the library), dev (what a compiler needs) and
# backend_<name> (a plugin; see AttileBackend.cmake). Nothing installed names the prefix, so an installation may be moved; the one exception
# is the directory for backends that libattile searches last, which is fixed when it is built.
include(CMakePackageConfigHelpers)

install(TARGETS attile EXPORT attileTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/include/attile/attile.h ${PROJECT_SOURCE_DIR}/include/attile/attile_backend.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attile COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/cpp/attile.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

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
configure_file(${CMAKE_CURRENT_LIST_DIR}/attile.pc.in ${PROJECT_BINARY_DIR}/attile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attile.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
if(ATTILE_FORTRAN)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/attile-fortran.pc.in ${PROJECT_BINARY_DIR}/attile-fortran.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/attile-fortran.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endif()
