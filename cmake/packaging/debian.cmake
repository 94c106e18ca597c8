# Run by cpack on each tree before it becomes packages. Debian wants a changelog of the program and one of the package beside every package's
# licence, and these and the manual compressed, without names and times; lintian reads from a file what is meant to be so.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(ATTILE_GZIP gzip REQUIRED)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, where that is set
file(GLOB licences ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/*/copyright ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/copyright)
foreach(licence IN LISTS licences)
  get_filename_component(folder ${licence} DIRECTORY)
  configure_file(${CPACK_ATTILE_SOURCE_DIR}/docs/CHANGELOG.md ${folder}/changelog COPYONLY)
  file(WRITE ${folder}/changelog.Debian "attile (${CPACK_ATTILE_DEBIAN_VERSION}) unstable; urgency=medium

  * Of the release ${CPACK_PACKAGE_VERSION}; what is new is in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
  get_filename_component(package ${folder} NAME)
  get_filename_component(share ${folder}/../.. ABSOLUTE)
  set(overrides ${share}/lintian/overrides/${package})
  file(WRITE ${overrides} "# No upload to Debian's archive, where a first one closes a bug.
${package}: initial-upload-closes-no-bugs
")
  if(package STREQUAL "libattile-dev")
    file(APPEND ${overrides} "# Programs in C and C++ are built without gfortran, which the package suggests.
${package}: missing-prerequisite-for-gfortran-module *
")
  elseif(package MATCHES "^libattile(-blas)?[0-9]")
    file(APPEND ${overrides} "# CPack writes these scripts.
${package}: maintscript-calls-ldconfig *
")
  endif()
  file(CHMOD ${folder}/changelog ${folder}/changelog.Debian ${overrides} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(CHMOD ${share}/lintian ${share}/lintian/overrides DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
file(GLOB plain ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/*/changelog* ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/*/changelog*
  ${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/man*/*.[1-9] ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man*/*.[1-9])
if(plain)
  execute_process(COMMAND ${ATTILE_GZIP} -9nf ${plain} COMMAND_ERROR_IS_FATAL ANY)
endif()
