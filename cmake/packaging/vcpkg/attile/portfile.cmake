# An overlay port of the tree that it lies in. In a registry vcpkg_from_github() takes this line's place.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    cpu ATTILE_BACKEND_CPU
    cuda ATTILE_BACKEND_CUDA
)
# With a triplet of static libraries libattile holds the cpu backend; that of CUDA stays a plugin.
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DATTILE_DEVELOPER=OFF
    -DATTILE_INSTALL=ON
    "-DATTILE_HIGHWAY_INCLUDE=${CURRENT_INSTALLED_DIR}/include"
  MAYBE_UNUSED_VARIABLES
    ATTILE_HIGHWAY_INCLUDE
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/attile)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE
  "${CURRENT_PACKAGES_DIR}/debug/include"
  "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/share/attile/bindings"
  "${CURRENT_PACKAGES_DIR}/share/attile/examples"
  "${CURRENT_PACKAGES_DIR}/share/attile/include"
  "${CURRENT_PACKAGES_DIR}/share/doc"
)
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
