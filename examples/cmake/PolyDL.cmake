# polydl_optimize(<target> <source.c> [<option of polydl optimize>...])
#
# Adds to a target what polydl makes of a C file. It is made again when the file, a header, the machine file or an
# option changes. Macros and folders of headers are given as options too, as in `-D N=64 -I ${CMAKE_SOURCE_DIR}`.
# POLYDL_FLAGS holds for every file: `--no-run --machine epyc-zen5 --threads 4` gives the same text on every machine.
find_program(POLYDL polydl REQUIRED)
set(POLYDL_FLAGS "" CACHE STRING "Options of every polydl optimize")

function(polydl_optimize target source)
  get_filename_component(input ${source} ABSOLUTE)
  get_filename_component(name ${source} NAME_WE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.polydl.c)
  separate_arguments(flags NATIVE_COMMAND "${POLYDL_FLAGS}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${POLYDL} optimize ${input} -o ${output} --depfile ${output}.d ${flags} ${ARGN}
    MAIN_DEPENDENCY ${input}
    DEPFILE ${output}.d
    COMMENT "polydl optimize ${source}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
