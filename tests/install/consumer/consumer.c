/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies two matrices through an installed libattile and says on which backend; exit status 0 if the product is right. */
#include <attile/attile.h>
#include <stdio.h>

int main(void) {
    static char text[4096];
    attile_context *context;
    attile_context_info info;
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, expected[4] = {19, 22, 43, 50};
    float c[4] = {0};
    int i;
    if (attile_context_create(NULL, &context) != ATTILE_OK) {
        attile_last_error(text, sizeof text);
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    attile_context_info_init(&info, sizeof info);
    if (attile_context_get_info(context, &info) != ATTILE_OK) return 1;
    if (attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 2, 1.0F, a, 2, b, 2, 0.0F, c, 2) != ATTILE_OK) {
        attile_last_error(text, sizeof text);
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    for (i = 0; i < 4; ++i) {
        if (!(c[i] == expected[i])) {
            fprintf(stderr, "c[%d] is %g, expected %g\n", i, (double)c[i], (double)expected[i]);
            return 1;
        }
    }
    attile_context_destroy(context);
    printf("backend %s, libattile %d\n", info.backend, (int)attile_version());
    return 0;
}
