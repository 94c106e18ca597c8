// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's C interface, as the operators need it: a node of a graph, the tensors of a call, and failures.
#ifndef ATTILE_ONNXRUNTIME_RUNTIME_H
#define ATTILE_ONNXRUNTIME_RUNTIME_H

#include <attile/attile.h>
#include <onnxruntime_c_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attile::onnxruntime {

// Of ONNX Runtime: the version of its C interface that is used here, and the first release that has it.
constexpr uint32_t kApiVersion = 23;
constexpr int kOldestMinor = 23;

// The version with a tensor's shape in place, without an object for it; releases and headers may be older.
constexpr uint32_t kShapeApiVersion = 24;

// The tables of functions. They live as long as the runtime does.
struct Runtime {
    const OrtApi *api = nullptr;
    const OrtEpApi *ep = nullptr;
    const OrtApi *shapes = nullptr;  // `api` if the runtime has kShapeApiVersion, else NULL.
};

// What is thrown inside the plugin; functions that ONNX Runtime calls turn it into a status.
struct Failure {
    OrtErrorCode code;
    std::string sentence;
};

// Throws a Failure if ONNX Runtime reports one.
void check(const Runtime &runtime, OrtStatus *status);

// Throws a Failure with Attile's sentence, unless `status` is ATTILE_OK.
void check_attile(int32_t status);

using Shape = std::vector<int64_t>;

// The number of elements; for the axes from `first` up to `end`.
int64_t elements(const Shape &shape, size_t first, size_t end);
int64_t elements(const Shape &shape);

// An input or output as the graph declares it. Its extents may be unknown until a call.
struct Declared {
    std::string name;  // Empty: the optional input or output is absent.
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    std::vector<int64_t> shape;  // Empty too if the graph does not say it; -1: an extent that it does not say.

    bool present() const { return !name.empty(); }
};

// A node of a graph, while ONNX Runtime asks about it or compiles it.
class Node {
  public:
    Node(const Runtime &runtime, const OrtNode *node);

    const std::string &domain() const { return domain_; }  // "" for ONNX's own.
    const std::string &op() const { return op_; }
    int since() const { return since_; }  // The version of the operator set that this form of the operator came with.
    // An index past the last one is an absent input or output.
    const Declared &input(size_t index) const { return index < inputs_.size() ? inputs_[index] : absent_; }
    const Declared &output(size_t index) const { return index < outputs_.size() ? outputs_[index] : absent_; }
    const std::vector<Declared> &inputs() const { return inputs_; }
    const std::vector<Declared> &outputs() const { return outputs_; }

    bool has(const char *attribute) const;
    int64_t integer(const char *attribute, int64_t otherwise) const;
    double real(const char *attribute, double otherwise) const;
    std::string text(const char *attribute, const char *otherwise) const;

  private:
    const OrtOpAttr *find(const char *attribute) const;

    const Runtime &runtime_;
    const OrtNode *node_;
    std::string domain_, op_;
    int since_ = 0;
    Declared absent_;
    std::vector<Declared> inputs_, outputs_;
};

// Attile's number of a type of elements; 0 for one that it does not have.
int32_t dtype_of(ONNXTensorElementDataType type);
int64_t bytes_of(int32_t dtype);

// A tensor of a call: dense, row-major, in host memory. dtype is 0 if the input is absent or of a type that Attile does not have.
struct Value {
    void *data = nullptr;
    int32_t dtype = 0;
    Shape shape;
    bool present = false;

    size_t rank() const { return shape.size(); }
};

// Where the inputs and outputs of a node stand among those of the fused node; -1: absent.
struct Places {
    std::vector<int> inputs, outputs;
};

// The arguments of one call of a node.
class Call {
  public:
    Call(const Runtime &runtime, OrtKernelContext *context, const Places &places) : runtime_(runtime), context_(context), places_(places) {}

    Value input(size_t index) const;
    bool wants(size_t output) const { return output < places_.outputs.size() && places_.outputs[output] >= 0; }
    void *output(size_t index, const Shape &shape) const;

  private:
    const Runtime &runtime_;
    OrtKernelContext *context_;
    const Places &places_;
};

// Memory for one call.
class Scratch {
  public:
    void *reserve(int64_t bytes);

  private:
    std::vector<std::unique_ptr<char[]>> blocks_;
};

}  // namespace attile::onnxruntime

#endif
