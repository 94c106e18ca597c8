// SPDX-License-Identifier: Apache-2.0
// Calls of every operation, large enough for the cpu backend to use threads, in memory of their own: run() allocates nothing itself.
#ifndef ATTILE_TESTS_BUSY_CALLS_H
#define ATTILE_TESTS_BUSY_CALLS_H

#include <attile/attile.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace attile::test {

class BusyCall {
  public:
    int32_t run(attile_context *context) { return call_(context); }
    void clear() {
        for (Memory *output : outputs_) output->assign(output->size(), NAN);
    }
    // Equal bits, and none of the NaN that was there before.
    bool holds(const std::vector<float> &expected) const {
        const std::vector<float> now = results();
        for (const float x : now) {
            if (std::isnan(x)) return false;
        }
        return now.size() == expected.size() && std::memcmp(now.data(), expected.data(), now.size() * sizeof(float)) == 0;
    }
    bool untouched() const {
        for (const float x : results()) {
            if (!std::isnan(x)) return false;
        }
        return true;
    }
    std::vector<float> results() const {
        std::vector<float> all;
        for (const Memory *output : outputs_) all.insert(all.end(), output->begin(), output->end());
        return all;
    }

    void gemm(int64_t m, int64_t n, int64_t k) {
        const attile_tensor a = input({m, k}), b = input({k, n}), d = output({m, n});
        call_ = [=](attile_context *context) {
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            args.a = a;
            args.b = b;
            args.d = d;
            return attile_gemm(context, &args);
        };
    }

    void attention(int64_t heads, int64_t heads_kv, int64_t len_q, int64_t len_k) {
        describe_attention(heads, heads_kv, len_q, len_k);
        call_ = [this](attile_context *context) { return attile_attention(context, &attention_); };
    }

    void backward(int64_t heads, int64_t len) {
        describe_attention(heads, heads, len, len);
        const attile_tensor dout = input({1, heads, len, kHeadDim});
        attile_tensor gradients[3];
        for (attile_tensor &gradient : gradients) gradient = output({1, heads, len, kHeadDim});
        call_ = [=, this, dq = gradients[0], dk = gradients[1], dv = gradients[2]](attile_context *context) {
            const int32_t status = attile_attention(context, &attention_);
            if (status != ATTILE_OK) return status;
            attile_attention_backward_args args;
            attile_attention_backward_init(&args, sizeof args);
            args.forward = &attention_;
            args.dout = dout;
            args.dq = dq;
            args.dk = dk;
            args.dv = dv;
            return attile_attention_backward(context, &args);
        };
    }

    void merge(int64_t parts, int64_t heads, int64_t rows) {
        for (int64_t part = 0; part < parts; ++part) {
            o_parts_.push_back(input({1, heads, rows, kHeadDim}));
            lse_parts_.push_back(input({1, heads, rows}));
        }
        const attile_tensor o = output({1, heads, rows, kHeadDim}), lse = output({1, heads, rows});
        call_ = [=, this](attile_context *context) {
            attile_attention_merge_args args;
            attile_attention_merge_init(&args, sizeof args);
            args.o_parts = o_parts_.data();
            args.lse_parts = lse_parts_.data();
            args.parts = parts;
            args.o = o;
            args.lse = lse;
            return attile_attention_merge(context, &args);
        };
    }

    void softmax(int64_t rows, int64_t columns) {
        const attile_tensor x = input({rows, columns}), y = output({rows, columns});
        call_ = [=](attile_context *context) {
            attile_softmax_args args;
            attile_softmax_init(&args, sizeof args);
            args.x = x;
            args.y = y;
            args.axis = 1;
            return attile_softmax(context, &args);
        };
    }

    void sum(int64_t rows, int64_t columns) {
        const attile_tensor x = input({rows, columns}), y = output({rows, 1});
        call_ = [=](attile_context *context) {
            attile_reduce_args args;
            attile_reduce_init(&args, sizeof args);
            args.x = x;
            args.y = y;
            args.axis = 1;
            args.op = ATTILE_REDUCE_SUM;
            return attile_reduce(context, &args);
        };
    }

  private:
    using Memory = std::vector<float>;
    static constexpr int64_t kHeadDim = 64;

    attile_tensor tensor(const std::vector<int64_t> &shape) {
        size_t count = 1;
        for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
        memory_.emplace_back(count, NAN);
        attile_tensor result;
        attile_tensor_init(&result, memory_.back().data(), ATTILE_F32, static_cast<int32_t>(shape.size()), shape.data());
        return result;
    }
    // Uniform in [-2, 2); another seed for each.
    attile_tensor input(const std::vector<int64_t> &shape) {
        const attile_tensor result = tensor(shape);
        uint64_t state = 0x9e3779b97f4a7c15U * memory_.size();
        for (float &x : memory_.back()) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            x = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-53 * 4 - 2);
        }
        return result;
    }
    attile_tensor output(const std::vector<int64_t> &shape) {
        const attile_tensor result = tensor(shape);
        outputs_.push_back(&memory_.back());
        return result;
    }

    void describe_attention(int64_t heads, int64_t heads_kv, int64_t len_q, int64_t len_k) {
        attile_attention_init(&attention_, sizeof attention_);
        attention_.q = input({1, heads, len_q, kHeadDim});
        attention_.k = input({1, heads_kv, len_k, kHeadDim});
        attention_.v = input({1, heads_kv, len_k, kHeadDim});
        attention_.o = output({1, heads, len_q, kHeadDim});
        attention_.lse = output({1, heads, len_q});
        attention_.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    }

    std::deque<Memory> memory_;  // elements stay where they are
    std::vector<Memory *> outputs_;
    std::vector<attile_tensor> o_parts_, lse_parts_;
    attile_attention_args attention_;
    std::function<int32_t(attile_context *)> call_;
};

struct BusyCallKind {
    const char *name;
    void (*make)(BusyCall *);
};
inline constexpr BusyCallKind kBusyCalls[] = {
    {"gemm", [](BusyCall *call) { call->gemm(256, 272, 700); }},
    {"few_rows", [](BusyCall *call) { call->gemm(2, 2048, 1024); }},
    {"attention", [](BusyCall *call) { call->attention(4, 2, 200, 200); }},
    {"decode", [](BusyCall *call) { call->attention(8, 2, 1, 6000); }},
    {"backward", [](BusyCall *call) { call->backward(3, 120); }},
    {"merge", [](BusyCall *call) { call->merge(3, 4, 300); }},
    {"softmax", [](BusyCall *call) { call->softmax(150, 1000); }},
    {"reduce", [](BusyCall *call) { call->sum(20, 50000); }},
};
inline const BusyCallKind *busy_call_named(const std::string &name) {
    for (const BusyCallKind &kind : kBusyCalls) {
        if (name == kind.name) return &kind;
    }
    return nullptr;
}

}  // namespace attile::test

#endif  // ATTILE_TESTS_BUSY_CALLS_H
