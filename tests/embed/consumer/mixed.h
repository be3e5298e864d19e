// What the files of consumer_mixed hand each other.
#ifndef CONSUMER_MIXED_H_
#define CONSUMER_MIXED_H_

#include <rondo/rondo.hpp>

rondo::Error Open(const char* path, rondo::Runtime* runtime, rondo::Session* session);
rondo::Error Run(rondo::Session* session, rondo::span<const rondo::Tensor> inputs,
                 rondo::span<const rondo::Tensor> outputs);

#endif  // CONSUMER_MIXED_H_
