// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

#include <new>

namespace attile::onnxruntime {
namespace {

// Releases what ONNX Runtime handed out.
template <typename T>
struct Release {
    void(ORT_API_CALL *function)(T *);
    void operator()(T *object) const { function(object); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release<T>>;

// The type of the elements of a value or a declaration.
ONNXTensorElementDataType read_type(const Runtime &runtime, const OrtTensorTypeAndShapeInfo *info) {
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(runtime, runtime.api->GetTensorElementType(info, &type));
    return type;
}

std::vector<int64_t> read_shape(const Runtime &runtime, const OrtTensorTypeAndShapeInfo *info) {
    size_t rank = 0;
    check(runtime, runtime.api->GetDimensionsCount(info, &rank));
    std::vector<int64_t> shape(rank);
    check(runtime, runtime.api->GetDimensions(info, shape.data(), rank));
    return shape;
}

Declared read_declared(const Runtime &runtime, const OrtValueInfo *info) {
    Declared declared;
    if (info == nullptr) return declared;
    const char *name = nullptr;
    check(runtime, runtime.api->GetValueInfoName(info, &name));
    declared.name = name;
    const OrtTypeInfo *type = nullptr;
    const OrtTensorTypeAndShapeInfo *tensor = nullptr;
    check(runtime, runtime.api->GetValueInfoTypeInfo(info, &type));
    if (type != nullptr) check(runtime, runtime.api->CastTypeInfoToTensorInfo(type, &tensor));
    if (tensor == nullptr) return declared;
    declared.type = read_type(runtime, tensor);
    declared.shape = read_shape(runtime, tensor);
    return declared;
}

template <typename Count, typename Get>
std::vector<Declared> read_list(const Runtime &runtime, const OrtNode *node, Count count, Get get) {
    size_t length = 0;
    check(runtime, count(node, &length));
    std::vector<const OrtValueInfo *> infos(length);
    if (length > 0) check(runtime, get(node, infos.data(), length));
    std::vector<Declared> list;
    for (const OrtValueInfo *info : infos) list.push_back(read_declared(runtime, info));
    return list;
}

}  // namespace

void check(const Runtime &runtime, OrtStatus *status) {
    if (status == nullptr) return;
    const Owned<OrtStatus> owned(status, {runtime.api->ReleaseStatus});
    throw Failure{runtime.api->GetErrorCode(status), runtime.api->GetErrorMessage(status)};
}

void check_attile(int32_t status) {
    if (status == ATTILE_OK) return;
    char sentence[1024];
    (void)attile_last_error(sentence, sizeof sentence);
    throw Failure{status / 1000 == 1 ? ORT_INVALID_ARGUMENT : ORT_FAIL, std::string("Attile: ") + sentence};
}

int64_t elements(const Shape &shape, size_t first, size_t end) {
    int64_t product = 1;
    for (size_t i = first; i < end; ++i) product *= shape[i];
    return product;
}

int64_t elements(const Shape &shape) { return elements(shape, 0, shape.size()); }

Node::Node(const Runtime &runtime, const OrtNode *node) : runtime_(runtime), node_(node) {
    const char *domain = nullptr, *op = nullptr;
    check(runtime, runtime.api->Node_GetDomain(node, &domain));
    check(runtime, runtime.api->Node_GetOperatorType(node, &op));
    check(runtime, runtime.api->Node_GetSinceVersion(node, &since_));
    domain_ = domain;
    op_ = op;
    inputs_ = read_list(runtime, node, runtime.api->Node_GetNumInputs, runtime.api->Node_GetInputs);
    outputs_ = read_list(runtime, node, runtime.api->Node_GetNumOutputs, runtime.api->Node_GetOutputs);
}

// NULL if the node does not have it.
const OrtOpAttr *Node::find(const char *attribute) const {
    const OrtOpAttr *found = nullptr;
    const Owned<OrtStatus> missing(runtime_.api->Node_GetAttributeByName(node_, attribute, &found), {runtime_.api->ReleaseStatus});
    return missing ? nullptr : found;
}

bool Node::has(const char *attribute) const { return find(attribute) != nullptr; }

int64_t Node::integer(const char *attribute, int64_t otherwise) const {
    const OrtOpAttr *found = find(attribute);
    size_t size = 0;
    if (found != nullptr) check(runtime_, runtime_.api->ReadOpAttr(found, ORT_OP_ATTR_INT, &otherwise, sizeof otherwise, &size));
    return otherwise;
}

double Node::real(const char *attribute, double otherwise) const {
    const OrtOpAttr *found = find(attribute);
    if (found == nullptr) return otherwise;
    float value = 0;
    size_t size = 0;
    check(runtime_, runtime_.api->ReadOpAttr(found, ORT_OP_ATTR_FLOAT, &value, sizeof value, &size));
    return static_cast<double>(value);
}

std::string Node::text(const char *attribute, const char *otherwise) const {
    const OrtOpAttr *found = find(attribute);
    if (found == nullptr) return otherwise;
    size_t size = 0;  // The first call fails and tells it.
    const Owned<OrtStatus> asked(runtime_.api->ReadOpAttr(found, ORT_OP_ATTR_STRING, nullptr, 0, &size), {runtime_.api->ReleaseStatus});
    std::string value(size, '\0');
    check(runtime_, runtime_.api->ReadOpAttr(found, ORT_OP_ATTR_STRING, value.data(), value.size(), &size));
    return value.c_str();  // Without the terminating 0, where it is counted.
}

int32_t dtype_of(ONNXTensorElementDataType type) {
    switch (type) {
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
            return ATTILE_F32;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
            return ATTILE_F64;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
            return ATTILE_F16;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
            return ATTILE_BF16;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
            return ATTILE_I32;
        case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
            return ATTILE_BOOL;
        default:
            return 0;
    }
}

int64_t bytes_of(int32_t dtype) { return (dtype & 0xff) / 8; }

namespace {

// Type and shape of a tensor.
void read_shape_of(const Runtime &runtime, const OrtValue *given, Value *value) {
#if ORT_API_VERSION >= 24
    if (runtime.shapes != nullptr) {
        ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
        const int64_t *extents = nullptr;
        size_t rank = 0;
        check(runtime, runtime.shapes->GetTensorElementTypeAndShapeDataReference(given, &type, &extents, &rank));
        value->shape.assign(extents, extents + rank);
        value->dtype = dtype_of(type);
        return;
    }
#endif
    OrtTensorTypeAndShapeInfo *info = nullptr;
    check(runtime, runtime.api->GetTensorTypeAndShape(given, &info));
    const Owned<OrtTensorTypeAndShapeInfo> owned(info, {runtime.api->ReleaseTensorTypeAndShapeInfo});
    value->shape = read_shape(runtime, info);
    value->dtype = dtype_of(read_type(runtime, info));
}

}  // namespace

Value Call::input(size_t index) const {
    Value value;
    if (index >= places_.inputs.size() || places_.inputs[index] < 0) return value;
    const OrtValue *given = nullptr;
    check(runtime_, runtime_.api->KernelContext_GetInput(context_, static_cast<size_t>(places_.inputs[index]), &given));
    if (given == nullptr) return value;
    read_shape_of(runtime_, given, &value);
    const void *data = nullptr;
    check(runtime_, runtime_.api->GetTensorData(given, &data));
    value.data = const_cast<void *>(data);  // attile_tensor has inputs and outputs alike.
    value.present = true;
    return value;
}

void *Call::output(size_t index, const Shape &shape) const {
    if (!wants(index)) throw Failure{ORT_FAIL, "output " + std::to_string(index) + " is not used, and cannot be written"};
    OrtValue *made = nullptr;
    const auto place = static_cast<size_t>(places_.outputs[index]);
    check(runtime_, runtime_.api->KernelContext_GetOutput(context_, place, shape.data(), shape.size(), &made));
    void *data = nullptr;
    check(runtime_, runtime_.api->GetTensorMutableData(made, &data));
    return data;
}

void *Scratch::reserve(int64_t bytes) {
    blocks_.emplace_back(new char[static_cast<size_t>(bytes > 0 ? bytes : 1)]);
    return blocks_.back().get();
}

}  // namespace attile::onnxruntime
