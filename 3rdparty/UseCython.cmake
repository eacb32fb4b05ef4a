# cython_module(name source language): a Python extension from one Cython file, by way of C or CXX, with the Cython of the
# Python that builds. The module has a plain name without the interpreter's tag: the directory belongs to one environment.
function(cython_module name source language)
  if(language STREQUAL "CXX")
    set(_generated ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    set(_flavour --cplus)
  else()
    set(_generated ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
    set(_flavour)
  endif()
  add_custom_command(
    OUTPUT ${_generated}
    COMMAND ${Python_EXECUTABLE} -m cython ${_flavour} -3 -o ${_generated} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    COMMENT "Cython ${source}")
  Python_add_library(${name} MODULE ${_generated})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so")
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  tilelang_native(${name})
endfunction()
