/* A library that allocates once in each call, as a driver's library may. */
#include <stdlib.h>

char* Take(size_t bytes);
char* Take(size_t bytes) {
  char* block = malloc(bytes);
  if (block != NULL)
    block[0] = 0; /* so that the call does not become a jump, from which there is no return here */
  return block;
}
