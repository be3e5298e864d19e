// The functions that the files of consumer_mixed call of each other.
#pragma once

#include <rondo/rondo.hpp>

rondo::Error Open(const char* path, rondo::Runtime* runtime, rondo::Session* session);
rondo::Error Run(rondo::Session* session, rondo::span<const rondo::Tensor> inputs,
                 rondo::span<const rondo::Tensor> outputs);
