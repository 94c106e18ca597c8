// SPDX-License-Identifier: Apache-2.0
// Tensors of ggml as tensors of Attile: the same memory seen by strides, or a copy of another type.
#ifndef ATTILE_GGML_TENSORS_H
#define ATTILE_GGML_TENSORS_H

#include <attile/attile.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "ggml.h"

namespace attile::ggml {

// Memory that is kept from one operation to the next and grows with them.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() { std::free(data_); }

    // At least so many bytes, with anything in them; NULL if there is no memory. What was there before is lost.
    void *reserve(size_t bytes) {
        if (data_ == nullptr || bytes > size_) {
            std::free(data_);
            data_ = std::malloc(bytes > 0 ? bytes : 1);
            size_ = data_ != nullptr ? bytes : 0;
        }
        return data_;
    }

  private:
    void *data_ = nullptr;
    size_t size_ = 0;
};

// ATTILE_F32, ATTILE_F16 or ATTILE_BF16; 0 for what is not served.
int32_t dtype_of(ggml_type type);

// Moves a tensor's first element by `count` elements; nothing where the address is not known.
void advance(attile_tensor *tensor, int64_t count);

// `from` by its own strides. `axes` are ggml's dimensions, in the order of Attile's axes. The address is left out unless `with_data`.
// False: the type is not served, or a stride is no multiple of the element's size.
bool view(const ggml_tensor &from, std::initializer_list<int> axes, bool with_data, attile_tensor *to);

// `from` as elements of `type`: by its own strides where it has that type, else a copy in `scratch`; f32 is rounded to f16 or bf16, these
// are widened to f32. Without scratch the tensor is only described. Returns ATTILE_OK; ATTILE_ERROR_UNSUPPORTED_DTYPE: no such conversion,
// or rows that are not contiguous; ATTILE_ERROR_OUT_OF_HOST_MEMORY.
int32_t as_type(const ggml_tensor &from, ggml_type type, std::initializer_list<int> axes, Scratch *scratch, attile_tensor *to);

}  // namespace attile::ggml

#endif
