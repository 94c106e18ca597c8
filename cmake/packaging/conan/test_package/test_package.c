/* SPDX-License-Identifier: Apache-2.0 */
#include <attile/attile.h>
#include <stdio.h>

int main(void) {
    const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
    float c[4] = {0};
    char why[512];
    attile_context *context = NULL;
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    if (attile_context_create(NULL, &context) || attile_context_get_info(context, &info) ||
        attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 2, 1.0F, a, 2, b, 2, 0.0F, c, 2))
        return attile_last_error(why, sizeof why), fprintf(stderr, "%s\n", why), 1;
    printf("%s: %g %g %g %g\n", info.backend, c[0], c[1], c[2], c[3]);
    attile_context_destroy(context);
    return !(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
}
