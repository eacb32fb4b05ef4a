# Finds the headers and the library of the apache-tvm-ffi wheel in the environment of the Python that builds.
#
#   TvmFfi::Headers   headers of tvm-ffi and DLPack
#   TvmFfi::Library   libtvm_ffi; loaded by the Python package before ours, so no run path is recorded

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "from tvm_ffi import libinfo; print(libinfo.find_include_path(), libinfo.find_dlpack_include_path(), libinfo.find_libtvm_ffi(), sep=';')"
  OUTPUT_VARIABLE _tvm_ffi OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _tvm_ffi_status)
if(_tvm_ffi_status EQUAL 0)
  list(GET _tvm_ffi 0 TvmFfi_INCLUDE_DIR)
  list(GET _tvm_ffi 1 TvmFfi_DLPACK_INCLUDE_DIR)
  list(GET _tvm_ffi 2 TvmFfi_LIBRARY)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TvmFfi
  REQUIRED_VARS TvmFfi_INCLUDE_DIR TvmFfi_DLPACK_INCLUDE_DIR TvmFfi_LIBRARY
  REASON_FAILURE_MESSAGE "install apache-tvm-ffi for ${Python_EXECUTABLE}")

if(TvmFfi_FOUND AND NOT TARGET TvmFfi::Library)
  add_library(TvmFfi::Headers INTERFACE IMPORTED)
  target_include_directories(TvmFfi::Headers SYSTEM INTERFACE ${TvmFfi_INCLUDE_DIR} ${TvmFfi_DLPACK_INCLUDE_DIR})
  add_library(TvmFfi::Library SHARED IMPORTED)
  set_target_properties(TvmFfi::Library PROPERTIES IMPORTED_LOCATION ${TvmFfi_LIBRARY} IMPORTED_IMPLIB "${TvmFfi_LIBRARY}")
  target_link_libraries(TvmFfi::Library INTERFACE TvmFfi::Headers)
endif()
