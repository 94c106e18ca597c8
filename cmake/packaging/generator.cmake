# Read by cpack once for each kind of package. Debian's go to /usr; the archives' parts meet in one folder that may lie anywhere.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would come before each component's own
else()
  set(CPACK_PACKAGING_INSTALL_PREFIX /attile-${CPACK_PACKAGE_VERSION})
endif()
