// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients: binding a case's data to the calls.
#include "attention_data.h"
#include "problem.h"

namespace attile::test {
namespace {

std::int32_t wide_type(const AttentionCase &c) { return compute_type(c.dtype); }

class AttentionCall : public Call {
  public:
    AttentionCall(attile_context *context, Placement placement, bool widened, const AttentionData &data)
        : Call(context, placement, widened) {
        const AttentionCase &c = data.c;
        bind_inputs(data);
        args_.o = output("o", c.out_dtype, data.q_shape(c.head_dim_v), c.o_layout);
        const std::vector<std::int64_t> rows = data.q_shape(1);
        if (c.lse) args_.lse = output("lse", wide_type(c), {rows[0], rows[1], rows[2]}, c.lse_layout);
    }
    std::int32_t query(attile_support *support) const override { return attile_attention_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_attention(context_, &args_); }
    std::int32_t run_prepared() const override {
        attile_attention_args args = args_;
        args.workspace = nullptr;
        for (attile_tensor *x : {&args.q,
                                 &args.k,
                                 &args.v,
                                 &args.o,
                                 &args.lse,
                                 &args.bias,
                                 &args.allowed,
                                 &args.alibi_slopes,
                                 &args.sinks,
                                 &args.key_lengths,
                                 &args.cu_len_q,
                                 &args.cu_len_k,
                                 &args.block_table,
                                 &args.key_starts,
                                 &args.causal_offset,
                                 &args.block_mask,
                                 &args.tree_mask,
                                 &args.k_scale,
                                 &args.v_scale,
                                 &args.q_scale,
                                 &args.o_scale})
            *x = elsewhere(*x);
        attile_prepared *prepared = nullptr;
        std::int32_t status = attile_attention_prepare(context_, &args, &prepared);
        if (status != ATTILE_OK) return status;
        attile_attention_pointers at;
        attile_attention_pointers_init(&at, sizeof at);
        at.stream = args_.stream;
        at.workspace = args_.workspace;
        at.workspace_bytes = args_.workspace_bytes;
        at.q = args_.q.data;
        at.k = args_.k.data;
        at.v = args_.v.data;
        at.o = args_.o.data;
        at.lse = args_.lse.data;
        at.bias = args_.bias.data;
        at.allowed = args_.allowed.data;
        at.alibi_slopes = args_.alibi_slopes.data;
        at.sinks = args_.sinks.data;
        at.key_lengths = args_.key_lengths.data;
        at.cu_len_q = args_.cu_len_q.data;
        at.cu_len_k = args_.cu_len_k.data;
        at.block_table = args_.block_table.data;
        at.key_starts = args_.key_starts.data;
        at.causal_offset = args_.causal_offset.data;
        at.block_mask = args_.block_mask.data;
        at.tree_mask = args_.tree_mask.data;
        at.q_scale = args_.q_scale.data;
        at.k_scale = args_.k_scale.data;
        at.v_scale = args_.v_scale.data;
        at.o_scale = args_.o_scale.data;
        status = attile_attention_run(prepared, &at);
        attile_prepared_destroy(prepared);
        return status;
    }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  protected:
    AttentionCall(attile_context *context, Placement placement, bool widened) : Call(context, placement, widened) {}

    void bind_inputs(const AttentionData &data) {
        const AttentionCase &c = data.c;
        attile_attention_init(&args_, sizeof args_);
        args_.flags = c.flags;
        const auto stored = [&](const CacheStorage &storage, const Values &values, const Values &numbers, const Layout &layout) {
            if (numbers.shape.empty()) return input(c.type_of(storage), values, layout);
            return widened_ ? input(ATTILE_F64, values, layout) : input(storage.dtype, numbers, layout);
        };
        args_.q = stored(c.q_storage, data.q, data.q_numbers, c.q_layout);
        args_.k = stored(c.k_storage, data.k, data.k_numbers, c.k_layout);
        if (c.values_in_keys) {
            args_.v = args_.k;
            args_.v.shape[3] = c.head_dim_v;
        } else {
            args_.v = stored(c.v_storage, data.v, data.v_numbers, c.v_layout);
        }
        if (!widened_) {
            args_.q_scale = input(ATTILE_F32, data.q_scale, c.q_storage.scale_layout);
            args_.k_scale = input(ATTILE_F32, data.k_scale, c.k_storage.scale_layout);
            args_.v_scale = input(ATTILE_F32, data.v_scale, c.v_storage.scale_layout);
            args_.o_scale = input(ATTILE_F32, data.o_scale, c.o_scales.scale_layout);
        }
        args_.scale = c.scale;
        args_.softcap = c.softcap;
        args_.mask = c.mask;
        args_.window_left = c.window_left;
        args_.window_right = c.window_right;
        args_.bias = input(c.bias_dtype, data.bias, c.bias_layout);
        args_.allowed = input(c.seed % 2 == 0 ? ATTILE_BOOL : ATTILE_U8, data.allowed, c.allowed_layout);
        args_.alibi_slopes = input(wide_type(c), data.slopes, c.numbers_layout);
        args_.sinks = input(wide_type(c), data.sinks, c.numbers_layout);
        args_.key_lengths = input(ATTILE_I32, data.key_lengths, c.numbers_layout);
        args_.cu_len_q = input(ATTILE_I32, data.cu_len_q, c.numbers_layout);
        args_.cu_len_k = input(ATTILE_I32, data.cu_len_k, c.numbers_layout);
        args_.block_table = input(ATTILE_I32, data.block_table, c.numbers_layout);
        args_.key_starts = input(ATTILE_I32, data.key_starts, c.numbers_layout);
        args_.causal_offset = input(ATTILE_I32, data.causal_offset, c.numbers_layout);
        args_.block_mask = input(ATTILE_U8, data.block_mask, c.allowed_layout);
        args_.tree_mask = input(ATTILE_BOOL, data.tree_mask, c.allowed_layout);
        if (c.packed_q && c.give_max_len) args_.max_len_q = c.len_q - c.max_len_cut;
        if (c.packed_k && c.give_max_len) args_.max_len_k = c.len_k - c.max_len_cut;
    }

    attile_attention_args args_ = {};
};

class AttentionProblem final : public Problem {
  public:
    AttentionProblem(const AttentionCase &c, Contents contents) : data_(c, contents == Contents::kDrawn) {}
    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<AttentionCall>(context, placement, widened, data_);
    }
    std::int32_t compute_dtype() const override { return wide_type(data_.c); }
    std::vector<Honest> honest() const override {
        std::vector<Honest> all = honest_attention(data_);
        if (!data_.c.lse) all.pop_back();
        all[0].divisors = data_.o_divisors();
        for (Honest &h : all) h.to_the_bit = (data_.c.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0;
        return all;
    }

  private:
    AttentionData data_;
};

class BackwardCall final : public AttentionCall {
  public:
    BackwardCall(attile_context *context, Placement placement, bool widened, const BackwardData &data)
        : AttentionCall(context, placement, widened) {
        const AttentionCase &c = data.forward.c;
        bind_inputs(data.forward);
        args_.o = input(c.out_dtype, data.o, c.o_layout);
        args_.lse = input(wide_type(c), data.lse, c.lse_layout);
        attile_attention_backward_init(&backward_, sizeof backward_);
        backward_.flags = c.flags;
        backward_.forward = &args_;
        backward_.dout = input(data.c.dout_dtype, data.dout, c.o_layout);
        backward_.dlse = input(wide_type(c), data.dlse, c.lse_layout);
        backward_.dq = output("dq", data.c.grad_dtype, data.forward.q.shape, c.o_layout);
        backward_.dk = output("dk", data.c.grad_dtype, data.forward.k.shape, c.o_layout);
        backward_.dv = output("dv", data.c.grad_dtype, data.forward.v.shape, c.o_layout);
        if (!data.forward.bias.shape.empty() && data.c.dbias)
            backward_.dbias = output("dbias", data.c.dbias_dtype, data.forward.bias.shape, c.numbers_layout);
        if (!data.forward.sinks.shape.empty() && data.c.dsinks)
            backward_.dsinks = output("dsinks", wide_type(c), data.forward.sinks.shape, c.numbers_layout);
    }
    std::int32_t query(attile_support *support) const override { return attile_attention_backward_query(context_, &backward_, support); }
    std::int32_t run() const override { return attile_attention_backward(context_, &backward_); }
    std::int32_t run_prepared() const override { return run(); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        backward_.workspace = workspace;
        backward_.workspace_bytes = bytes;
        backward_.flags |= flags;
    }
    void set_stream(void *stream) override { backward_.stream = stream; }

  private:
    attile_attention_backward_args backward_ = {};
};

class BackwardProblem final : public Problem {
  public:
    BackwardProblem(const BackwardCase &c, Contents contents) : data_(c, contents == Contents::kDrawn) {}
    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<BackwardCall>(context, placement, widened, data_);
    }
    std::int32_t compute_dtype() const override { return wide_type(data_.forward.c); }
    std::vector<Honest> honest() const override { return honest_backward(data_); }

  private:
    BackwardData data_;
};

}  // namespace

std::unique_ptr<Problem> make_attention_problem(const AttentionCase &c, Contents contents) {
    return std::make_unique<AttentionProblem>(c, contents);
}

std::unique_ptr<Problem> make_backward_problem(const BackwardCase &c, Contents contents) {
    BackwardCase own = c;
    own.forward.bias_layout.broadcast = 0;  // an axis of stride 0 but full extent has no gradient of its own
    return std::make_unique<BackwardProblem>(own, contents);
}

}  // namespace attile::test
