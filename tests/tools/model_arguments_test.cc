// The values of --bind: numbers, arrays and files.
#include "tools/rondo/model_arguments.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace rondo::tools {
namespace {

TEST(ModelArguments, BindTakesNumbersArraysAndFiles) {
  TemporaryFolder folder;
  Tensor tensor{"", DType::kI64, {2}, std::vector<uint8_t>(16, 1)};
  ASSERT_TRUE(WriteTensor(tensor, folder.File("p.npy")).ok());
  CompileOptions options;
  options.models = {{"prefill", "a.onnx"}};
  ASSERT_EQ(
      ReadModelArguments(
          {}, {"a=true", "b=0.5", "c=[[1,2],[3,4]]", "prefill:d=[]", "e=" + folder.File("p.npy")}, &options),
      "");
  EXPECT_EQ(options.bound_inputs["a"].number, 1);
  EXPECT_EQ(options.bound_inputs["b"].number, 0.5);
  ASSERT_NE(options.bound_inputs["c"].array, nullptr);
  EXPECT_EQ(options.bound_inputs["c"].array->shape, Shape({2, 2}));
  EXPECT_EQ(ElementAsDouble(*options.bound_inputs["c"].array, 2), 3);
  EXPECT_EQ(options.models[0].bound_inputs["d"].array->shape, Shape({0}));
  EXPECT_EQ(options.bound_inputs["e"].array->bytes, tensor.bytes);
  for (const char* wrong :
       {"a", "=1", "a=[1,[2]]", "a=[[1],[2,3]]", "a=[1,x]", "a=[1", "a=[1]]", "a=none.npy", "a=word"}) {
    CompileOptions fresh;
    EXPECT_NE(ReadModelArguments({}, {wrong}, &fresh), "") << wrong;
  }
  EXPECT_NE(ReadModelArguments({}, {"a=1"}, &options), "") << "twice";
}

}  // namespace
}  // namespace rondo::tools
