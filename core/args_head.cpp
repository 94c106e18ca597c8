// SPDX-License-Identifier: Apache-2.0
// Heads of caller-filled structs, and the _init functions that stamp them.
#include "args_head.h"

#include <algorithm>

namespace attile::core {
namespace {

// A struct this much larger than what is known is not from a later version, it was never initialised; its tail may not even be readable.
constexpr uint32_t kMostGrowth = 4096;

int32_t check_size(const StructKind &kind, const void *pointer, StructHead *head) {
    if (pointer == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: %s is NULL", kind.operation, kind.argument);
    // The size alone is read first: nothing else is known to be there.
    std::memcpy(&head->struct_size, pointer, sizeof head->struct_size);
    const uint32_t size = head->struct_size;
    if (size < kind.first_size || size > kind.known_size + kMostGrowth || size % alignof(StructHead) != 0) {
        return fail(ATTILE_ERROR_STRUCT_SIZE, "%s: %s->struct_size is %u; expected %u (initialise it with its _init function)",
                    kind.operation, kind.argument, size, kind.known_size);
    }
    std::memcpy(head, pointer, sizeof *head);
    if (head->next != nullptr) {
        return fail(ATTILE_ERROR_INVALID_FLAGS, "%s: %s->next is not NULL; it is reserved", kind.operation, kind.argument);
    }
    const uint32_t unknown = head->flags & ~kind.allowed_flags;
    if (unknown != 0) {
        return fail(ATTILE_ERROR_INVALID_FLAGS, "%s: %s->flags is 0x%x, of which 0x%x is not known here; allowed are the bits of 0x%x",
                    kind.operation, kind.argument, head->flags, unknown, kind.allowed_flags);
    }
    return ATTILE_OK;
}

}  // namespace

int32_t read_struct(const StructKind &kind, const void *source, void *target) {
    StructHead head{};
    const int32_t status = check_size(kind, source, &head);
    if (status != ATTILE_OK) return status;
    if (head.struct_size > kind.known_size) {
        const unsigned char *bytes = static_cast<const unsigned char *>(source);
        for (uint32_t i = kind.known_size; i < head.struct_size; ++i) {
            if (bytes[i] != 0) {
                return fail(ATTILE_ERROR_STRUCT_TOO_NEW,
                            "%s: byte %u of *%s is set, which belongs to a field of a later version; this library knows %u bytes",
                            kind.operation, i, kind.argument, kind.known_size);
            }
        }
    }
    const uint32_t copied = std::min(head.struct_size, kind.known_size);
    std::memcpy(target, source, copied);
    std::memset(static_cast<unsigned char *>(target) + copied, 0, kind.known_size - copied);
    std::memcpy(target, &kind.known_size, sizeof kind.known_size);
    return ATTILE_OK;
}

int32_t check_output_struct(const StructKind &kind, const void *target) {
    StructHead head;
    return check_size(kind, target, &head);
}

void write_struct(const void *source, uint32_t known_size, void *target) {
    uint32_t size = 0;
    std::memcpy(&size, target, sizeof size);
    size = std::min(size, known_size);
    std::memcpy(static_cast<unsigned char *>(target) + sizeof(StructHead), static_cast<const unsigned char *>(source) + sizeof(StructHead),
                size - sizeof(StructHead));
}

bool init_struct(void *target, uint64_t size) {
    if (target == nullptr || size < sizeof(StructHead) || size > UINT32_MAX) return false;
    std::memset(target, 0, size);
    const uint32_t stamp = static_cast<uint32_t>(size);
    std::memcpy(target, &stamp, sizeof stamp);
    return true;
}

}  // namespace attile::core

using attile::core::init_struct;

extern "C" {

void attile_context_options_init(attile_context_options *options, uint64_t size) { init_struct(options, size); }

void attile_context_info_init(attile_context_info *info, uint64_t size) { init_struct(info, size); }

void attile_support_init(attile_support *support, uint64_t size) { init_struct(support, size); }

void attile_gemm_init(attile_gemm_args *args, uint64_t size) {
    if (init_struct(args, size) && size >= offsetof(attile_gemm_args, alpha) + sizeof args->alpha) args->alpha = 1.0;
}

void attile_gemm_grouped_init(attile_gemm_grouped_args *args, uint64_t size) {
    if (init_struct(args, size) && size >= offsetof(attile_gemm_grouped_args, alpha) + sizeof args->alpha) args->alpha = 1.0;
}

void attile_attention_init(attile_attention_args *args, uint64_t size) { init_struct(args, size); }

void attile_gemm_pointers_init(attile_gemm_pointers *pointers, uint64_t size) { init_struct(pointers, size); }

void attile_attention_pointers_init(attile_attention_pointers *pointers, uint64_t size) { init_struct(pointers, size); }

void attile_attention_backward_init(attile_attention_backward_args *args, uint64_t size) { init_struct(args, size); }

void attile_attention_merge_init(attile_attention_merge_args *args, uint64_t size) { init_struct(args, size); }

void attile_attention_merge_backward_init(attile_attention_merge_backward_args *args, uint64_t size) { init_struct(args, size); }

void attile_reduce_init(attile_reduce_args *args, uint64_t size) { init_struct(args, size); }

void attile_softmax_init(attile_softmax_args *args, uint64_t size) { init_struct(args, size); }

void attile_quantize_init(attile_quantize_args *args, uint64_t size) { init_struct(args, size); }

void attile_dequantize_init(attile_dequantize_args *args, uint64_t size) { init_struct(args, size); }

void attile_repack_init(attile_repack_args *args, uint64_t size) { init_struct(args, size); }

}  // extern "C"
