# cython_module(name source): a Python extension from one Cython file, C++ flavour, with the Cython of the building Python.
function(cython_module name source)
  set(_generated ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  add_custom_command(
    OUTPUT ${_generated}
    COMMAND ${Python_EXECUTABLE} -m cython --cplus -3 -o ${_generated} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPENDS ${source}
    COMMENT "Cython ${source}")
  Python_add_library(${name} MODULE WITH_SOABI ${_generated})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  tilelang_native(${name})
endfunction()
