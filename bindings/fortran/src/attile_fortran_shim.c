/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a Fortran array's descriptor to an attile_tensor. The address of an array's first element does not say where the next one lies: a
 * section may skip, run backwards or be empty. Its descriptor says it, and ISO_Fortran_binding.h is how C may read one; that header belongs
 * to the Fortran compiler, which is why this file is compiled with the binding and not with the library.
 */
#include <ISO_Fortran_binding.h>
#include <attile/attile.h>
#include <string.h>

/* The orders of axes, as attile_views.f90 has them. */
enum { kReversed = 0, kMatrix = 1 };

enum { kTensorRank = 4 };

int32_t attile_fortran_view(const CFI_cdesc_t *array, int32_t dtype, int32_t order, int32_t rank, int32_t part, attile_tensor *tensor);

static int64_t element_bytes(int32_t dtype) { return (dtype & 0xff) / 8; }

/* The tensor of `array`, which may be NULL: absent. Axes come in the opposite order of Fortran's dimensions, but kMatrix leaves the first
 * two as they are: (m, n, batch) becomes [batch, m, n]. An array of up to two dimensions fewer than `rank` gets leading axes of extent 1.
 * With `part` from 0 on, the last dimension numbers parts and that one of them is wanted. Wrong ranks are left for the library to report.
 * Returns 0, or the number of a dimension along which neighbours are no whole number of elements apart. */
int32_t attile_fortran_view(const CFI_cdesc_t *array, int32_t dtype, int32_t order, int32_t rank, int32_t part, attile_tensor *tensor) {
    const int64_t bytes = element_bytes(dtype);
    memset(tensor, 0, sizeof *tensor);
    if (!array) return 0;
    int32_t dims = array->rank;
    tensor->data = array->base_addr;
    tensor->dtype = dtype;
    if (part >= 0 && dims > 0) {
        --dims;
        if (tensor->data) tensor->data = (char *)tensor->data + part * (int64_t)array->dim[dims].sm;
    }
    tensor->rank = dims;
    if (dims < 1 || dims > kTensorRank) return 0;
    int empty = 0;
    for (int32_t dim = 0; dim < dims; ++dim) empty |= array->dim[dim].extent == 0;
    const int32_t lead = dims < rank && dims + 2 >= rank ? rank - dims : 0;
    for (int32_t i = 0; i < lead; ++i) tensor->shape[i] = 1;
    tensor->rank = dims + lead;
    for (int32_t dim = 0; dim < dims; ++dim) {
        int32_t axis = tensor->rank - 1 - dim;
        if (order == kMatrix && dims >= 2 && dim < 2) axis = tensor->rank - 2 + dim;
        const int64_t extent = array->dim[dim].extent, distance = array->dim[dim].sm;
        /* Where nothing is ever stepped over, a compiler may leave any distance. */
        if (!empty && extent > 1 && distance % bytes != 0) return dim + 1;
        tensor->shape[axis] = extent;
        tensor->stride[axis] = distance / bytes;
    }
    return 0;
}
