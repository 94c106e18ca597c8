// SPDX-License-Identifier: Apache-2.0
// One call with arguments made of the fuzzer's bytes: tensors are small and lie in guarded slots, now and then any field is anything. Query
// and run must agree, a failed call writes nothing, a call that works writes its outputs alone and the same bytes when it is repeated.
#ifndef ATTILE_TESTS_FUZZ_CALL_H
#define ATTILE_TESTS_FUZZ_CALL_H

#include <attile/attile.h>

#include <initializer_list>
#include <vector>

#include "fuzz_memory.h"

namespace attile_test {

enum class FuzzOperation {
    kGemm,
    kAttention,
    kBackward,
    kMerge,
    kMergeBackward,
    kReduce,
    kSoftmax,
    kBlas,
    kMemory,
    kQuantize,
    kGemmGrouped,
    kAppend,
    kRepack,
    kContext,
    kCount
};
const char *fuzz_operation_name(FuzzOperation operation);

// What a context is made of, and what it has been asked so far.
struct FuzzTarget {
    const char *backend = "reference";
    bool slow = false;  // a device that is a program: asked always, run seldom
    struct Count {
        int64_t queries = 0, runs = 0, worked = 0;
    } counts[static_cast<int>(FuzzOperation::kCount)] = {};
};

// Where a tensor lies.
enum class Place { kMalformed, kInside, kOutside };
Place place_of(const attile_tensor &tensor);

class Call {
  public:
    Call(FuzzInput *bytes, attile_context *on, FuzzTarget *counted, FuzzOperation operation);

    // A tensor of about this shape, of the call's type unless another is named.
    attile_tensor tensor(std::initializer_list<int64_t> about, int32_t dtype = 0);
    attile_tensor tensor(const int64_t *about, int32_t rank, int32_t dtype);
    attile_tensor maybe(std::initializer_list<int64_t> about, int32_t dtype = 0) {
        return input.rarely(3) ? tensor(about, dtype) : attile_tensor{};
    }
    // A dense tensor shaped like another.
    attile_tensor like(const attile_tensor &other) { return tensor(other.shape, std::clamp(other.rank, 1, 4), 0); }

    int64_t extent();
    double scalar();
    int32_t narrow_type() {  // Of 8 bits.
        constexpr int32_t types[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2};
        return types[input.below(3)];
    }
    int32_t choice(int32_t count) { return input.rarely(32) ? input.raw<int32_t>() : static_cast<int32_t>(input.below(count)); }
    int32_t wide() const { return type_ == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }
    // Any number: small, a power of two or one beside it, or any bits.
    int64_t any_number();

    template <typename Args>
    void head(Args *args) {
        args->flags = input.rarely(8) ? input.byte() : 0;
        if (input.rarely()) args->struct_size = static_cast<uint32_t>(any_size(sizeof *args));
        if (input.rarely(64)) args->next = args;
        if (!input.rarely(8)) return;
        args->workspace_bytes = input.rarely() ? -1 - input.byte() : input.raw<uint16_t>() % FuzzMemory::kSlotBytes;
        args->workspace = workspace(args->workspace_bytes) + (input.rarely() ? input.byte() : 0);
    }
    // 0 to 64 bytes more than a struct's, or any.
    int64_t any_size(size_t size) {
        return input.rarely(4) ? input.raw<uint16_t>() : input.raw<uint16_t>() % static_cast<int64_t>(size + 65);
    }

    // A struct at the end of a slot: only as much of it as it says may be touched.
    template <typename Args>
    Args *place(const Args &args, int64_t slot) {
        const unsigned char rest = input.rarely(4) ? input.byte() : 0;
        return static_cast<Args *>(place(&args, sizeof args, args.struct_size, rest, slot));
    }

    // Queries and runs the call. `work` is about how many multiply-adds or visits a run takes.
    template <typename Args>
    void check(const Args &args, int32_t (*query)(attile_context *, const Args *, attile_support *),
               int32_t (*run)(attile_context *, const Args *), const std::vector<const attile_tensor *> &inputs,
               const std::vector<const attile_tensor *> &outputs, double work = 0);

    FuzzInput &input;
    attile_context *context;
    FuzzTarget &target;
    bool writes_twice = false;  // sequences that share rows: which of them a row is of is anybody's, and may change from run to run

  private:
    struct Region {
        int64_t slot = -1;
        unsigned char *first = nullptr, *end = nullptr;
        std::vector<unsigned char> before;
    };

    void *place(const void *args, size_t size, int64_t readable, unsigned char rest, int64_t slot);
    unsigned char *workspace(int64_t bytes);
    int32_t pick_type();
    void lay_out(attile_tensor *made);
    void put(attile_tensor *made);
    void note(int64_t slot, unsigned char *first, unsigned char *end);
    void take_snapshot();
    bool unchanged() const;
    void restore();
    void check_writes(const std::vector<const attile_tensor *> &outputs, const unsigned char *workspace, int64_t workspace_bytes) const;
    std::vector<unsigned char> bytes_of(const std::vector<const attile_tensor *> &outputs) const;

    FuzzTarget::Count &count_;
    FuzzOperation operation_;
    int32_t type_;
    int64_t next_slot_ = 0;
    std::vector<Region> regions_;
};

void check_sentence(int32_t status);

// For a person who looks at one input: every call's tensors, as extent:stride.
extern bool g_print_calls;
void print_answer(int32_t answer, const attile_support &support);
void print_call(const char *backend, const char *operation, const std::vector<const attile_tensor *> &tensors);

template <typename Args>
void Call::check(const Args &args, int32_t (*query)(attile_context *, const Args *, attile_support *),
                 int32_t (*run)(attile_context *, const Args *), const std::vector<const attile_tensor *> &inputs,
                 const std::vector<const attile_tensor *> &outputs, double work) {
    Args *const placed = place(args, FuzzMemory::kSlots - 1);
    attile_support support;
    attile_support_init(&support, sizeof support);
    take_snapshot();
    for (const auto *list : {&inputs, &outputs}) print_call(target.backend, fuzz_operation_name(operation_), *list);
    ++count_.queries;
    const int32_t answer = query(context, placed, &support);
    check_sentence(answer);
    print_answer(answer, support);
    ATTILE_FUZZ_CHECK(unchanged());
    if (answer == ATTILE_OK) {
        ATTILE_FUZZ_CHECK(support.workspace_bytes >= 0);
        ATTILE_FUZZ_CHECK(support.flops >= 0 && support.bytes >= 0);
        ATTILE_FUZZ_CHECK((support.level == ATTILE_SUPPORT_NONE) == (support.status != ATTILE_OK));
        ATTILE_FUZZ_CHECK(support.status == ATTILE_OK || (support.status / 1000 == 2 && support.text[0] != 0));
    }
    const bool foretold = answer == ATTILE_OK && support.level != ATTILE_SUPPORT_NONE;
    bool inside = true;
    for (const auto *list : {&inputs, &outputs})
        for (const attile_tensor *tensor : *list) inside = inside && place_of(*tensor) != Place::kOutside;
    if (answer == ATTILE_OK && !foretold && !inside) return;  // What is not ours to read may be read before the refusal.
    if (foretold && (!inside || !(work < (target.slow ? 3e4 : 1e6)))) {
        // Too large to be run, or not ours to read. That it wants a workspace can be held against it all the same.
        if (support.workspace_bytes == 0) return;
        placed->flags |= ATTILE_FLAG_NO_ALLOC;
        placed->workspace = nullptr;
        placed->workspace_bytes = 0;
        ++count_.runs;
        const int32_t status = run(context, placed);
        ATTILE_FUZZ_CHECK(status == ATTILE_ERROR_WORKSPACE_TOO_SMALL || status == ATTILE_ERROR_NULL_ARGUMENT ||
                          status == ATTILE_ERROR_ALIASING || status == ATTILE_ERROR_MISALIGNED);
        ATTILE_FUZZ_CHECK(unchanged());
        return;
    }
    if (target.slow && foretold && !input.rarely(4)) return;
    if (foretold && support.workspace_bytes > 0 && support.workspace_bytes <= FuzzMemory::kWorkspaceBytes && input.rarely(4)) {
        placed->flags |= ATTILE_FLAG_NO_ALLOC;  // exactly what was asked for
        placed->workspace = FuzzMemory::instance().workspace(support.workspace_bytes);
        placed->workspace_bytes = support.workspace_bytes;
    }
    ++count_.runs;
    const int32_t status = run(context, placed);
    check_sentence(status);
    const bool memory_matters = status == ATTILE_ERROR_NULL_ARGUMENT || status == ATTILE_ERROR_WORKSPACE_TOO_SMALL ||
                                status == ATTILE_ERROR_ALIASING;  // of NULL data or a workspace, which queries do not look at
    if (answer != ATTILE_OK)
        ATTILE_FUZZ_CHECK(status == answer || memory_matters);
    else if (!foretold)
        ATTILE_FUZZ_CHECK(status == support.status || memory_matters);
    else
        ATTILE_FUZZ_CHECK(status == ATTILE_OK || memory_matters);
    if (status != ATTILE_OK) {
        ATTILE_FUZZ_CHECK(unchanged());
        return;
    }
    ++count_.worked;
    check_writes(outputs, static_cast<unsigned char *>(placed->workspace), placed->workspace_bytes);
    if (writes_twice || !input.rarely(4)) return;
    const std::vector<unsigned char> first = bytes_of(outputs);
    restore();
    ATTILE_FUZZ_CHECK(run(context, placed) == ATTILE_OK);
    ATTILE_FUZZ_CHECK(first == bytes_of(outputs));
}

}  // namespace attile_test

#endif
