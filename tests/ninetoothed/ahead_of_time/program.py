"""Write a program in C that launches a kernel on memory of its own: it reads files, and writes one."""

from __future__ import annotations

import torch

_MAIN = r"""
#include "@NAME@.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*set)(void *), (*alloc)(void **, size_t),
    (*up)(void *, const void *, size_t), (*down)(void *, void *, size_t), (*sync)(void),
    (*fill)(void *, unsigned char, size_t);

#define CHECK(call)                                                          \
    do {                                                                     \
        int status = (call);                                                 \
        if (status) {                                                        \
            fprintf(stderr, "%s: %d %s\n", #call, status, @NAME@_message()); \
            return 1;                                                        \
        }                                                                    \
    } while (0)

static void *load(const char *path, size_t bytes) {
    void *host = malloc(bytes), *device = NULL;
    FILE *file = fopen(path, "rb");
    if (!file || fread(host, 1, bytes, file) != bytes || alloc(&device, bytes) || up(device, host, bytes)) exit(2);
    fclose(file);
    free(host);
    return device;
}

int main(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int device;
    if (!cuda) return 3;
#define FIND(function, name) *(void **)&function = dlsym(cuda, name)
    FIND(init, "cuInit"); FIND(get, "cuDeviceGet"); FIND(retain, "cuDevicePrimaryCtxRetain");
    FIND(set, "cuCtxSetCurrent"); FIND(alloc, "cuMemAlloc_v2"); FIND(up, "cuMemcpyHtoD_v2");
    FIND(down, "cuMemcpyDtoH_v2"); FIND(sync, "cuCtxSynchronize"); FIND(fill, "cuMemsetD8_v2");
    CHECK(init(0)); CHECK(get(&device, 0)); CHECK(retain(&context, device)); CHECK(set(context));
@BODY@
    return 0;
}
"""


def span(tensor):
    return sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1


def written(folder, kernel, arguments, output):
    """Write `main.c` and files of the arguments into a folder; the output is NaN before, and comes back as a file."""
    body, passed, back = [], [], ""
    for i, value in enumerate(arguments):
        if not isinstance(value, torch.Tensor):
            passed.append(repr(value) if isinstance(value, float) else str(int(value)))
            continue
        memory = value.as_strided((span(value),), (1,)).cpu()
        path, count = folder / f"argument{i}", 2 * len(memory)
        if value is output:
            memory = torch.full_like(memory, torch.nan)
            back = f"    void *host = malloc({count});\n    CHECK(down(host, t{i}.data, {count}));\n"
            back += f'    FILE *file = fopen("{folder}/output", "wb");\n'
            back += f"    if (!file || fwrite(host, 1, {count}, file) != {count} || fclose(file)) return 4;\n"
        path.write_bytes(memory.numpy().tobytes())
        for name, numbers in (("n", value.shape), ("s", value.stride())):
            body.append(f"    int64_t {name}{i}[] = {{{', '.join(map(str, numbers))}}};\n")
        tensor = f'{{load("{path}", {count}), n{i}, s{i}, {value.ndim}, NINETOOTHED_FLOAT16}}'
        body.append(f"    NineToothedTensor t{i} = {tensor};\n")
        passed.append(f"t{i}")
    if f"workspace_{kernel}(" in (folder / f"{kernel}.h").read_text():
        given = ", ".join(passed)
        body.append("    size_t bytes = 0, zeros = 0;\n    void *workspace = NULL, *semaphores = NULL;\n")
        body.append(f"    CHECK(workspace_{kernel}({given}, &bytes, &zeros));\n")
        body.append("    if (bytes) CHECK(alloc(&workspace, bytes));\n")
        body.append("    if (zeros) { CHECK(alloc(&semaphores, zeros)); CHECK(fill(semaphores, 0, zeros)); }\n")
        passed += ["workspace", "semaphores"]
    launch = f"    CHECK(launch_{kernel}(NULL, {', '.join(passed)}));\n"
    text = "".join([*body, launch * 3, "    CHECK(sync());\n", back])
    source = folder / "main.c"
    source.write_text(_MAIN.replace("@NAME@", kernel).replace("@BODY@", text))
    return source
