This is a letter, and not a program.
// expect: 1:1: not C that can be read
