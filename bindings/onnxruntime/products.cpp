// SPDX-License-Identifier: Apache-2.0
// MatMul, Gemm and Softmax, and what the makers of kernels share.
#include <algorithm>
#include <cmath>

#include "kernels.h"

namespace attile::onnxruntime {
namespace {

// Some extent for queries that are made before extents are known.
constexpr int64_t kAnyExtent = 16;

attile_gemm_args gemm_args(const attile_tensor &a, const attile_tensor &b, const attile_tensor &d) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.a = a;
    args.b = b;
    args.d = d;
    return args;
}

void require_gemm(attile_context *context, int32_t dtype) {
    const attile_tensor any = dense(nullptr, dtype, {kAnyExtent, kAnyExtent});
    require_backend(attile_gemm_query, context, gemm_args(any, any, any));
}

// An axis of a batch: how far apart neighbours lie in a, b and d. 0: the matrix is shared.
struct BatchAxis {
    int64_t extent, a, b, d;
};

// The matrices of a product of NumPy's kind, and the axes over which it is repeated, slowest first.
struct Batch {
    attile_tensor a, b, d;
    std::vector<BatchAxis> axes;
};

// The extent of batch axis `axis` of `count`, which are aligned at the last; 1 if the tensor does not have it.
int64_t batch_extent(const Shape &shape, size_t axis, size_t count) {
    const size_t own = shape.size() - 2;
    return axis + own < count ? 1 : shape[axis + own - count];
}

Shape batch_shape(const Shape &a, const Shape &b) {
    const size_t count = std::max(a.size(), b.size()) - 2;
    Shape shape;
    for (size_t i = 0; i < count; ++i) {
        const int64_t x = batch_extent(a, i, count), y = batch_extent(b, i, count);
        if (x != y && x != 1 && y != 1) {
            throw Failure{ORT_INVALID_ARGUMENT, "MatMul: batch axis " + std::to_string(i) + " is " + std::to_string(x) + " in A and " +
                                                    std::to_string(y) + " in B, expected equal extents or 1"};
        }
        shape.push_back(x == 1 ? y : x);
    }
    return shape;
}

// Neighbouring axes become one where that changes no stride.
void merge_axes(std::vector<BatchAxis> &axes) {
    std::vector<BatchAxis> merged;
    for (const BatchAxis &axis : axes) {
        if (axis.extent == 1) continue;
        if (!merged.empty()) {
            BatchAxis &last = merged.back();
            if (last.a == axis.a * axis.extent && last.b == axis.b * axis.extent && last.d == axis.d * axis.extent) {
                last = {last.extent * axis.extent, axis.a, axis.b, axis.d};
                continue;
            }
        }
        merged.push_back(axis);
    }
    axes = merged;
}

// a and b have rank 2 at least.
Batch make_batch(const Value &a, const Value &b, const Shape &batch, void *d) {
    const int64_t m = a.shape[a.rank() - 2], k = a.shape[a.rank() - 1], n = b.shape[b.rank() - 1];
    Batch made;
    int64_t step_a = m * k, step_b = k * n, step_d = m * n;
    for (size_t i = batch.size(); i-- > 0;) {
        const int64_t x = batch_extent(a.shape, i, batch.size()), y = batch_extent(b.shape, i, batch.size());
        made.axes.insert(made.axes.begin(), {batch[i], x == 1 ? 0 : step_a, y == 1 ? 0 : step_b, step_d});
        step_a *= x;
        step_b *= y;
        step_d *= batch[i];
    }
    merge_axes(made.axes);
    int64_t rows = m;
    // If all share B, the rows of all entries are the rows of one product.
    if (made.axes.size() == 1 && made.axes[0].b == 0 && made.axes[0].a == m * k) {
        rows *= made.axes[0].extent;
        made.axes.clear();
    }
    made.a = dense(a.data, a.dtype, {rows, k});
    made.b = dense(b.data, a.dtype, {k, n});
    made.d = dense(d, a.dtype, {rows, n});
    return made;
}

void add_axis(attile_tensor *tensor, int64_t extent, int64_t stride) {
    for (int i = tensor->rank; i > 0; --i) {
        tensor->shape[i] = tensor->shape[i - 1];
        tensor->stride[i] = tensor->stride[i - 1];
    }
    tensor->shape[0] = extent;
    tensor->stride[0] = stride;
    ++tensor->rank;
}

void advance(attile_tensor *tensor, int64_t count) { tensor->data = static_cast<char *>(tensor->data) + count * bytes_of(tensor->dtype); }

// Two axes of the batch go into a call; there is a call for each index of those before them.
void compute_batch(attile_context *context, const Batch &batch, size_t first) {
    if (batch.axes.size() - first > 2) {
        const BatchAxis &axis = batch.axes[first];
        Batch entry = batch;
        for (int64_t i = 0; i < axis.extent; ++i) {
            compute_batch(context, entry, first + 1);
            advance(&entry.a, axis.a);
            advance(&entry.b, axis.b);
            advance(&entry.d, axis.d);
        }
        return;
    }
    attile_gemm_args args = gemm_args(batch.a, batch.b, batch.d);
    for (size_t i = batch.axes.size(); i-- > first;) {
        const BatchAxis &axis = batch.axes[i];
        add_axis(&args.a, axis.extent, axis.a);
        add_axis(&args.b, axis.extent, axis.b);
        add_axis(&args.d, axis.extent, axis.d);
    }
    check_attile(attile_gemm(context, &args));
}

class MatMul : public Kernel {
  public:
    explicit MatMul(attile_context *context) : context_(context) {}

    void compute(const Call &call) const override {
        Value a = call.input(0), b = call.input(1);
        if (a.rank() == 0 || b.rank() == 0) throw Failure{ORT_INVALID_ARGUMENT, "MatMul: A or B is a scalar, expected rank 1 or more"};
        // A vector is a row on the left and a column on the right; the axis that this adds is not in the output.
        const bool row = a.rank() == 1, column = b.rank() == 1;
        if (row) a.shape.insert(a.shape.begin(), 1);
        if (column) b.shape.push_back(1);
        const int64_t m = a.shape[a.rank() - 2], k = a.shape[a.rank() - 1], n = b.shape[b.rank() - 1];
        if (b.shape[b.rank() - 2] != k) {
            throw Failure{ORT_INVALID_ARGUMENT, "MatMul: A has " + std::to_string(k) + " columns and B has " +
                                                    std::to_string(b.shape[b.rank() - 2]) + " rows, expected equal numbers"};
        }
        const Shape batch = batch_shape(a.shape, b.shape);
        Shape shape;
        shape.reserve(batch.size() + 2);
        shape = batch;
        if (!row) shape.push_back(m);
        if (!column) shape.push_back(n);
        void *d = call.output(0, shape);
        if (elements(shape) > 0) compute_batch(context_, make_batch(a, b, batch, d), 0);
    }

  private:
    attile_context *context_;
};

class Gemm : public Kernel {
  public:
    Gemm(const Node &node, attile_context *context)
        : context_(context),
          alpha_(node.real("alpha", 1)),
          beta_(node.input(2).present() ? node.real("beta", 1) : 0),
          transposed_a_(node.integer("transA", 0) != 0),
          transposed_b_(node.integer("transB", 0) != 0) {
        require(std::isfinite(alpha_) && std::isfinite(beta_), "alpha or beta is not finite");
    }

    void compute(const Call &call) const override {
        const attile_tensor a = matrix(call.input(0), "A", transposed_a_), b = matrix(call.input(1), "B", transposed_b_);
        const Shape shape = {a.shape[0], b.shape[1]};
        if (a.shape[1] != b.shape[0]) {
            throw Failure{ORT_INVALID_ARGUMENT, "Gemm: op(A) has " + std::to_string(a.shape[1]) + " columns and op(B) has " +
                                                    std::to_string(b.shape[0]) + " rows, expected equal numbers"};
        }
        attile_gemm_args args = gemm_args(a, b, dense(call.output(0, shape), a.dtype, {shape[0], shape[1]}));
        args.alpha = alpha_;
        args.beta = beta_;
        if (beta_ != 0) args.c = broadcast(call.input(2), shape);
        if (elements(shape) > 0) check_attile(attile_gemm(context_, &args));
    }

  private:
    static attile_tensor matrix(const Value &value, const char *name, bool transposed) {
        if (value.rank() != 2) {
            throw Failure{ORT_INVALID_ARGUMENT,
                          std::string("Gemm: ") + name + " has rank " + std::to_string(value.rank()) + ", expected 2"};
        }
        attile_tensor tensor = dense(value.data, value.dtype, {value.shape[0], value.shape[1]});
        if (transposed) {
            std::swap(tensor.shape[0], tensor.shape[1]);
            std::swap(tensor.stride[0], tensor.stride[1]);
        }
        return tensor;
    }

    // C as a matrix of the output's shape; axes of extent 1 that are longer there have stride 0.
    static attile_tensor broadcast(const Value &c, const Shape &shape) {
        if (c.rank() > 2) throw Failure{ORT_INVALID_ARGUMENT, "Gemm: C has rank " + std::to_string(c.rank()) + ", expected 0 to 2"};
        const int64_t rows = c.rank() == 2 ? c.shape[0] : 1, columns = c.rank() > 0 ? c.shape[c.rank() - 1] : 1;
        if ((rows != 1 && rows != shape[0]) || (columns != 1 && columns != shape[1])) {
            throw Failure{ORT_INVALID_ARGUMENT, "Gemm: C is " + std::to_string(rows) + " x " + std::to_string(columns) +
                                                    ", expected it to broadcast to " + std::to_string(shape[0]) + " x " +
                                                    std::to_string(shape[1])};
        }
        attile_tensor tensor = dense(c.data, c.dtype, {shape[0], shape[1]});
        tensor.stride[0] = rows == 1 ? 0 : columns;
        tensor.stride[1] = columns == 1 ? 0 : 1;
        return tensor;
    }

    attile_context *context_;
    double alpha_, beta_;
    bool transposed_a_, transposed_b_;
};

class Softmax : public Kernel {
  public:
    // Before version 13 all axes from `axis` on are one.
    Softmax(const Node &node, attile_context *context)
        : context_(context), flattens_(node.since() < 13), axis_(node.integer("axis", flattens_ ? 1 : -1)) {}

    void compute(const Call &call) const override {
        const Value x = call.input(0);
        const auto rank = static_cast<int64_t>(x.rank());
        // The axis of a scalar may be 0 or -1. The older form takes `rank` too: then each row has one element.
        const int64_t most = flattens_ || rank == 0 ? rank : rank - 1;
        if (axis_ < -std::max<int64_t>(rank, 1) || axis_ > most) {
            throw Failure{ORT_INVALID_ARGUMENT, "Softmax: axis is " + std::to_string(axis_) + ", expected " + std::to_string(-rank) +
                                                    " to " + std::to_string(most)};
        }
        const auto axis = static_cast<size_t>(rank == 0 ? 0 : axis_ < 0 ? axis_ + rank : axis_);
        const size_t end = flattens_ || rank == 0 ? x.rank() : axis + 1;
        const int64_t outer = elements(x.shape, 0, axis), row = elements(x.shape, axis, end), inner = elements(x.shape, end, x.rank());
        attile_softmax_args args;
        attile_softmax_init(&args, sizeof args);
        args.axis = 1;
        args.x = inner == 1 ? dense(x.data, x.dtype, {outer, row}) : dense(x.data, x.dtype, {outer, row, inner});
        args.y = args.x;
        args.y.data = call.output(0, x.shape);
        if (elements(x.shape) > 0) check_attile(attile_softmax(context_, &args));
    }

  private:
    attile_context *context_;
    bool flattens_;
    int64_t axis_;
};

}  // namespace

int32_t require_type(const Node &node, std::initializer_list<size_t> inputs) {
    const ONNXTensorElementDataType type = node.input(0).type;
    const int32_t dtype = dtype_of(type);
    require(dtype == ATTILE_F32 || dtype == ATTILE_F64 || dtype == ATTILE_F16 || dtype == ATTILE_BF16,
            "its type is not float32, float64, float16 or bfloat16");
    for (const size_t input : inputs) {
        if (node.input(input).present()) require(node.input(input).type == type, "its inputs have different types");
    }
    return dtype;
}

attile_tensor dense(void *data, int32_t dtype, std::initializer_list<int64_t> shape) {
    attile_tensor tensor;
    check_attile(attile_tensor_init(&tensor, data, dtype, static_cast<int32_t>(shape.size()), shape.begin()));
    return tensor;
}

std::unique_ptr<Kernel> make_matmul(const Node &node, attile_context *context) {
    require_gemm(context, require_type(node, {1}));
    return std::make_unique<MatMul>(context);
}

std::unique_ptr<Kernel> make_gemm(const Node &node, attile_context *context) {
    require(node.since() >= 7, "it is of operator set 6 or older");
    require_gemm(context, require_type(node, {1, 2}));
    return std::make_unique<Gemm>(node, context);
}

std::unique_ptr<Kernel> make_softmax(const Node &node, attile_context *context) {
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    args.axis = 1;
    args.x = dense(nullptr, require_type(node, {}), {kAnyExtent, kAnyExtent, kAnyExtent});
    args.y = args.x;
    require_backend(attile_softmax_query, context, args);
    return std::make_unique<Softmax>(node, context);
}

Maker find_maker(const Node &node) {
    static constexpr struct {
        const char *domain, *op;
        Maker maker;
    } kMakers[] = {
        {"", "MatMul", make_matmul},
        {"", "Gemm", make_gemm},
        {"", "Softmax", make_softmax},
        {"", "Attention", make_attention},
        {"com.microsoft", "MultiHeadAttention", make_multi_head_attention},
        {"com.microsoft", "GroupQueryAttention", make_group_query_attention},
    };
    for (const auto &entry : kMakers) {
        if (node.domain() == entry.domain && node.op() == entry.op) return entry.maker;
    }
    return nullptr;
}

}  // namespace attile::onnxruntime
