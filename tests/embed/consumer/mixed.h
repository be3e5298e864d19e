// The functions through which the two files of consumer_mixed call each other.
#pragma once

#include <rondo/rondo.hpp>

rondo::Error Open(const char* path, rondo::Runtime* runtime, rondo::Session* session);
rondo::Error Run(rondo::Session* session, rondo::span<const rondo::Tensor> inputs,
                 rondo::span<const rondo::Tensor> outputs);
