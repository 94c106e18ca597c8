// SPDX-License-Identifier: Apache-2.0
// What the virtual GPU's own tests run: bodies of kernels, over an array.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "ptx_machine.h"

namespace attile::virtual_gpu {

using testing::HasSubstr;

// Memory of the device with numbers in it.
template <class T>
class Array {
  public:
    explicit Array(std::vector<T> values) : size_(values.size()), data_(static_cast<T *>(allocate(size_ * sizeof(T)))) {
        std::memcpy(data_, values.data(), size_ * sizeof(T));
    }
    ~Array() { release(data_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    T *data() const { return data_; }
    std::vector<T> values() const { return std::vector<T>(data_, data_ + size_); }

  private:
    std::size_t size_;
    T *data_;
};

struct Shape {
    uint32_t blocks = 1, threads = 32, cluster = 1;
};

// Runs a kernel with this body; %rd1 is the array's address, %r1 the thread, %r2 the block. `functions` come after it.
inline void run(const std::string &body, const void *array, Shape shape = {}, const std::string &functions = "") {
    Module module(R"(
        .version 8.0
        .target sm_90a
        .address_size 64
        .extern .shared .align 1024 .b8 memory[];
        .visible .entry kernel(.param .u64 kernel_param_0)
        {
        .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<16>;
        ld.param.u64 %rd1, [kernel_param_0];
        cvta.to.global.u64 %rd1, %rd1;
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd2, %rd1, %rd2;  // The thread's word.
        )" + body +
                  "\n ret; }\n" + functions);
    Grid grid;
    grid.kernel = module.find("kernel");
    grid.blocks[0] = shape.blocks;
    grid.threads[0] = shape.threads;
    grid.cluster = shape.cluster;
    grid.dynamic_shared = 8192;
    grid.parameters.resize(8);
    std::memcpy(grid.parameters.data(), &array, 8);
    run_grid(grid);
}

inline std::string fault_of(const std::string &body, const void *array, Shape shape = {}) {
    try {
        run(body, array, shape);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

inline std::vector<uint32_t> numbers(std::size_t count, uint32_t first = 0) {
    std::vector<uint32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<uint32_t>(i);
    return values;
}

}  // namespace attile::virtual_gpu
