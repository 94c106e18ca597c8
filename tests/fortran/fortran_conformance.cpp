// SPDX-License-Identifier: Apache-2.0
// The list of conformance cases through the Fortran binding. The runner's calls of libattile end here, since a program's own functions come
// before a library's: their tensors become array descriptors, module attile is called with them, and what it makes of them goes on to the
// library. What real32 and real64 arrays cannot express is called through the binding's argument structs.
#include <ISO_Fortran_binding.h>
#include <attile/attile.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "runner.h"

namespace {

// The binding's own call of the library, to be handed on, rather than the runner's.
bool inside = false;
int by_arrays = 0, by_structs = 0;

struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
};

template <class F>
F *next(const char *name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

#ifdef CFI_type_kind_shift  // GCC's CFI_type_Bool is written with C's _Bool, which C++ lacks
constexpr CFI_type_t kBool = CFI_type_Logical + (1 << CFI_type_kind_shift);
#else
constexpr CFI_type_t kBool = CFI_type_Bool;
#endif

CFI_type_t cfi_type(std::int32_t dtype) {
    switch (dtype) {
        case ATTILE_F32:
            return CFI_type_float;
        case ATTILE_F64:
            return CFI_type_double;
        case ATTILE_I32:
            return CFI_type_int32_t;
        default:
            return kBool;
    }
}

// A tensor as a Fortran array, or nothing for an absent one.
class Array {
  public:
    explicit Array(const attile_tensor &tensor, bool matrix = false) : present_(tensor.dtype != 0) {
        if (!present_) return;
        const std::int64_t bytes = (tensor.dtype & 0xff) / 8;
        std::memset(&storage_, 0, sizeof storage_);
        CFI_cdesc_t *d = get();
        d->base_addr = tensor.data;
        d->elem_len = static_cast<std::size_t>(bytes);
        d->version = CFI_VERSION;
        d->attribute = CFI_attribute_other;
        d->type = cfi_type(tensor.dtype);
        d->rank = static_cast<CFI_rank_t>(tensor.rank);
        for (int dim = 0; dim < tensor.rank; ++dim) {
            int axis = tensor.rank - 1 - dim;
            if (matrix && tensor.rank >= 2 && dim < 2) axis = tensor.rank - 2 + dim;
            d->dim[dim] = {0, static_cast<CFI_index_t>(tensor.shape[axis]), static_cast<CFI_index_t>(tensor.stride[axis] * bytes)};
        }
    }
    // All tensors of a list as one array with one more dimension.
    Array(const attile_tensor *parts, std::int64_t count) : Array(parts[0]) {
        const std::ptrdiff_t step = count > 1 ? static_cast<char *>(parts[1].data) - static_cast<char *>(parts[0].data) : 0;
        get()->dim[get()->rank++] = {0, static_cast<CFI_index_t>(count), step};
    }
    CFI_cdesc_t *get() { return present_ ? reinterpret_cast<CFI_cdesc_t *>(&storage_) : nullptr; }

  private:
    CFI_CDESC_T(CFI_MAX_RANK) storage_;
    bool present_;
};

bool all_of(std::int32_t dtype, std::initializer_list<attile_tensor> tensors) {
    for (const attile_tensor &t : tensors)
        if (t.dtype != 0 && t.dtype != dtype) return false;
    return dtype == ATTILE_F32 || dtype == ATTILE_F64;
}

bool exact(std::int32_t dtype, std::initializer_list<double> values) {
    for (const double value : values)
        if (dtype == ATTILE_F32 && static_cast<double>(static_cast<float>(value)) != value) return false;
    return true;
}

bool by_arrays_too(const attile_attention_args &a) {
    return all_of(a.q.dtype, {a.k, a.v, a.o, a.lse, a.bias, a.alibi_slopes, a.sinks}) && exact(a.q.dtype, {a.scale, a.softcap});
}

// Do the parts lie as one array's would?
bool even(const attile_tensor *parts, std::int64_t count) {
    for (std::int64_t i = 1; i < count; ++i) {
        const attile_tensor &a = parts[i - 1], &b = parts[i];
        if (std::memcmp(a.shape, b.shape, sizeof a.shape) != 0 || std::memcmp(a.stride, b.stride, sizeof a.stride) != 0) return false;
        if (static_cast<char *>(b.data) - static_cast<char *>(a.data) !=
            static_cast<char *>(parts[1].data) - static_cast<char *>(parts[0].data))
            return false;
    }
    return true;
}

}  // namespace

using D = CFI_cdesc_t *;
extern "C" {
std::int32_t fortran_gemm_real32(attile_context *, const attile_gemm_args *, D a, D b, D c, D d, D bias);
std::int32_t fortran_gemm_real64(attile_context *, const attile_gemm_args *, D a, D b, D c, D d, D bias);
std::int32_t fortran_attention_real32(attile_context *, const attile_attention_args *, D q, D k, D v, D o, D lse, D bias, D allowed,
                                      D alibi_slopes, D sinks, D key_lengths, D cu_len_q, D cu_len_k, D block_table, D key_starts,
                                      D causal_offset, D block_mask, D tree_mask);
std::int32_t fortran_attention_real64(attile_context *, const attile_attention_args *, D q, D k, D v, D o, D lse, D bias, D allowed,
                                      D alibi_slopes, D sinks, D key_lengths, D cu_len_q, D cu_len_k, D block_table, D key_starts,
                                      D causal_offset, D block_mask, D tree_mask);
std::int32_t fortran_backward_real32(attile_context *, const attile_attention_backward_args *, const attile_attention_args *, D q, D k, D v,
                                     D o, D lse, D dout, D dq, D dk, D dv, D dbias, D dsinks, D bias, D allowed, D alibi_slopes, D sinks,
                                     D key_lengths, D cu_len_q, D cu_len_k, D key_starts, D causal_offset, D block_mask, D tree_mask,
                                     D dlse);
std::int32_t fortran_backward_real64(attile_context *, const attile_attention_backward_args *, const attile_attention_args *, D q, D k, D v,
                                     D o, D lse, D dout, D dq, D dk, D dv, D dbias, D dsinks, D bias, D allowed, D alibi_slopes, D sinks,
                                     D key_lengths, D cu_len_q, D cu_len_k, D key_starts, D causal_offset, D block_mask, D tree_mask,
                                     D dlse);
std::int32_t fortran_merge_real32(attile_context *, const attile_attention_merge_args *, D o_parts, D lse_parts, D o, D lse);
std::int32_t fortran_merge_real64(attile_context *, const attile_attention_merge_args *, D o_parts, D lse_parts, D o, D lse);
std::int32_t fortran_reduce_real32(attile_context *, const attile_reduce_args *, std::int32_t dim, D x, D y);
std::int32_t fortran_reduce_real64(attile_context *, const attile_reduce_args *, std::int32_t dim, D x, D y);
std::int32_t fortran_softmax_real32(attile_context *, const attile_softmax_args *, std::int32_t dim, D x, D y);
std::int32_t fortran_softmax_real64(attile_context *, const attile_softmax_args *, std::int32_t dim, D x, D y);
std::int32_t fortran_gemm_struct(attile_context *, const attile_gemm_args *);
std::int32_t fortran_attention_struct(attile_context *, const attile_attention_args *);
std::int32_t fortran_backward_struct(attile_context *, const attile_attention_backward_args *);
std::int32_t fortran_merge_struct(attile_context *, const attile_attention_merge_args *);
std::int32_t fortran_merge_backward_struct(attile_context *, const attile_attention_merge_backward_args *);
std::int32_t fortran_reduce_struct(attile_context *, const attile_reduce_args *);
std::int32_t fortran_softmax_struct(attile_context *, const attile_softmax_args *);

std::int32_t attile_gemm(attile_context *context, const attile_gemm_args *args) {
    if (inside) return next<decltype(attile_gemm)>("attile_gemm")(context, args);
    const Inside guard;
    const attile_gemm_args &g = *args;
    if (!all_of(g.a.dtype, {g.b, g.c, g.d, g.bias}) || !exact(g.a.dtype, {g.alpha, g.beta})) {
        ++by_structs;
        return fortran_gemm_struct(context, args);
    }
    ++by_arrays;
    const bool in_place = g.c.dtype == 0 || (g.c.data == g.d.data && g.c.rank == g.d.rank);
    Array a(g.a, true), b(g.b, true), c(in_place ? g.d : g.c, true), d(in_place ? attile_tensor{} : g.d, true), bias(g.bias);
    return (g.a.dtype == ATTILE_F32 ? fortran_gemm_real32 : fortran_gemm_real64)(context, args, a.get(), b.get(), c.get(), d.get(),
                                                                                 bias.get());
}

std::int32_t attile_attention(attile_context *context, const attile_attention_args *args) {
    if (inside) return next<decltype(attile_attention)>("attile_attention")(context, args);
    const Inside guard;
    const attile_attention_args &a = *args;
    if (!by_arrays_too(a)) {
        ++by_structs;
        return fortran_attention_struct(context, args);
    }
    ++by_arrays;
    Array q(a.q), k(a.k), v(a.v), o(a.o), lse(a.lse), bias(a.bias), allowed(a.allowed), slopes(a.alibi_slopes), sinks(a.sinks),
        lengths(a.key_lengths), cu_q(a.cu_len_q), cu_k(a.cu_len_k), table(a.block_table), starts(a.key_starts), offset(a.causal_offset),
        blocks(a.block_mask), tree(a.tree_mask);
    return (a.q.dtype == ATTILE_F32 ? fortran_attention_real32 : fortran_attention_real64)(
        context, args, q.get(), k.get(), v.get(), o.get(), lse.get(), bias.get(), allowed.get(), slopes.get(), sinks.get(), lengths.get(),
        cu_q.get(), cu_k.get(), table.get(), starts.get(), offset.get(), blocks.get(), tree.get());
}

std::int32_t attile_attention_backward(attile_context *context, const attile_attention_backward_args *args) {
    if (inside) return next<decltype(attile_attention_backward)>("attile_attention_backward")(context, args);
    const Inside guard;
    const attile_attention_args &a = *args->forward;
    if (!by_arrays_too(a) || !all_of(a.q.dtype, {args->dout, args->dq, args->dk, args->dv, args->dbias, args->dsinks, args->dlse})) {
        ++by_structs;
        return fortran_backward_struct(context, args);
    }
    ++by_arrays;
    Array q(a.q), k(a.k), v(a.v), o(a.o), lse(a.lse), bias(a.bias), allowed(a.allowed), slopes(a.alibi_slopes), sinks(a.sinks),
        lengths(a.key_lengths), cu_q(a.cu_len_q), cu_k(a.cu_len_k), dout(args->dout), dq(args->dq), dk(args->dk), dv(args->dv),
        dbias(args->dbias), dsinks(args->dsinks), starts(a.key_starts), offset(a.causal_offset), blocks(a.block_mask), tree(a.tree_mask),
        dlse(args->dlse);
    return (a.q.dtype == ATTILE_F32 ? fortran_backward_real32 : fortran_backward_real64)(
        context, args, args->forward, q.get(), k.get(), v.get(), o.get(), lse.get(), dout.get(), dq.get(), dk.get(), dv.get(), dbias.get(),
        dsinks.get(), bias.get(), allowed.get(), slopes.get(), sinks.get(), lengths.get(), cu_q.get(), cu_k.get(), starts.get(),
        offset.get(), blocks.get(), tree.get(), dlse.get());
}

std::int32_t attile_attention_merge(attile_context *context, const attile_attention_merge_args *args) {
    if (inside) return next<decltype(attile_attention_merge)>("attile_attention_merge")(context, args);
    const Inside guard;
    const std::int64_t n = args->parts;
    const std::int32_t dtype = args->o.dtype;
    if (!all_of(dtype, {args->o_parts[0], args->lse_parts[0], args->lse}) || !even(args->o_parts, n) || !even(args->lse_parts, n)) {
        ++by_structs;
        return fortran_merge_struct(context, args);
    }
    ++by_arrays;
    Array o_parts(args->o_parts, n), lse_parts(args->lse_parts, n), o(args->o), lse(args->lse);
    return (dtype == ATTILE_F32 ? fortran_merge_real32 : fortran_merge_real64)(context, args, o_parts.get(), lse_parts.get(), o.get(),
                                                                               lse.get());
}

std::int32_t attile_attention_merge_backward(attile_context *context, const attile_attention_merge_backward_args *args) {
    if (inside) return next<decltype(attile_attention_merge_backward)>("attile_attention_merge_backward")(context, args);
    const Inside guard;
    ++by_structs;
    return fortran_merge_backward_struct(context, args);
}

std::int32_t attile_reduce(attile_context *context, const attile_reduce_args *args) {
    if (inside) return next<decltype(attile_reduce)>("attile_reduce")(context, args);
    const Inside guard;
    if (!all_of(args->x.dtype, {args->y})) {
        ++by_structs;
        return fortran_reduce_struct(context, args);
    }
    ++by_arrays;
    const std::int32_t axis = args->axis < 0 ? args->axis + args->x.rank : args->axis;
    Array x(args->x), y(args->y);
    return (args->x.dtype == ATTILE_F32 ? fortran_reduce_real32 : fortran_reduce_real64)(context, args, args->x.rank - axis, x.get(),
                                                                                         y.get());
}

std::int32_t attile_softmax(attile_context *context, const attile_softmax_args *args) {
    if (inside) return next<decltype(attile_softmax)>("attile_softmax")(context, args);
    const Inside guard;
    if (!all_of(args->x.dtype, {args->y})) {
        ++by_structs;
        return fortran_softmax_struct(context, args);
    }
    ++by_arrays;
    const std::int32_t axis = args->axis < 0 ? args->axis + args->x.rank : args->axis;
    Array x(args->x), y(args->x.data == args->y.data ? attile_tensor{} : args->y);
    return (args->x.dtype == ATTILE_F32 ? fortran_softmax_real32 : fortran_softmax_real64)(context, args, args->x.rank - axis, x.get(),
                                                                                           y.get());
}
}  // extern "C"

// arguments: part of a case's id, "" for all; then the most multiply-adds of a case.
int main(int argc, char **argv) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "reference";
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK) return 1;
    const auto show = [](const attile::test::Report &report, int, int) {
        if (report.outcome == attile::test::Outcome::kFailed) std::printf("%s: %s\n", report.id.c_str(), report.message.c_str());
    };
    // As other languages have it: tests/bindings/binding_cases.cpp.
    const double most_work = argc > 2 ? std::atof(argv[2]) : 1e6;
    const attile::test::VerifySummary summary = attile::test::verify_backend(context, attile::test::Tier::kQuick, argc > 1 ? argv[1] : "",
                                                                             {.rerun_each = 7, .most_work = most_work}, show);
    attile_context_destroy(context);
    std::printf("%d passed, %d failed, %d unsupported; %d calls by arrays, %d by argument structs\n", summary.passed, summary.failed,
                summary.unsupported, by_arrays, by_structs);
    return summary.failed > 0 || summary.passed == 0 || by_arrays <= by_structs;
}
