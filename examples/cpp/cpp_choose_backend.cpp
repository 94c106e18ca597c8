// SPDX-License-Identifier: Apache-2.0
// Choosing where to run, and finding out why it is not where you thought; with errors as values, for programs that do not throw.
//
//     c++ -std=c++17 cpp_choose_backend.cpp $(pkg-config --cflags --libs attile) -o cpp_choose_backend
//     ./cpp_choose_backend            what ATTILE_BACKEND says, else the best that can run here
//     ./cpp_choose_backend cuda,cpu   the first of a list that can
//     ./cpp_choose_backend cuda:1     the second device of one backend, strictly: nothing else will do
#include <attile.hpp>
#include <cstdio>

int main(int argc, char **argv) {
    //! [choose]
    attile::Context context;
    if (const attile::Status status = attile::Context::try_create(context, argc > 1 ? argv[1] : nullptr); !status) {
        std::fprintf(stderr, "%s: %s\nbackends tried:\n%s", status.name(), status.message().c_str(), attile::backend_report().c_str());
        return 1;
    }
    //! [choose]
    attile::ContextInfo info;
    if (const attile::Status status = context.try_info(info); !status) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
    std::printf("backend: %s %s\ndevice:  %s %s\n", info.backend, info.backend_version, info.device_name, info.arch);

    //! [query]
    attile::GemmArgs args;  // a query reads no data, so the tensors need none
    args.a = args.b = args.d = attile::view(static_cast<const float *>(nullptr), {1024, 1024});
    attile::Support support;
    if (const attile::Status status = context.try_query(args, support); !status)
        return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
    if (support.level == ATTILE_SUPPORT_NONE)
        std::printf("product of 1024x1024 float32 matrices: no, %s\n", support.text);
    else
        std::printf("product of 1024x1024 float32 matrices: yes, by %s\n", support.kernel);
    //! [query]
    std::printf("backends tried:\n%s", attile::backend_report().c_str());
    return 0;
}
