# Gives contend::shared and contend::static.
get_filename_component(contend_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET contend::shared)
  add_library(contend::shared SHARED IMPORTED)
  set_target_properties(contend::shared PROPERTIES
    IMPORTED_LOCATION "${contend_prefix}/lib/libcontend.so"
    INTERFACE_INCLUDE_DIRECTORIES "${contend_prefix}/include")

  add_library(contend::static STATIC IMPORTED)
  set_target_properties(contend::static PROPERTIES
    IMPORTED_LOCATION "${contend_prefix}/lib/libcontend.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m"
    INTERFACE_INCLUDE_DIRECTORIES "${contend_prefix}/include")
endif()
