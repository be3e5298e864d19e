/* A shared library that knows nothing of Rondo. */
int rondo_tests_nothing(void);
int rondo_tests_nothing(void) { return 0; }
