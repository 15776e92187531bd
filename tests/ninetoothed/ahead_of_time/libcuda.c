/* A driver of CUDA that only records: what is loaded and launched, as lines of a file named by NT_RECORD. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
static FILE *record(void) { return fopen(getenv("NT_RECORD"), "a"); }

int cuGetErrorString(int status, const char **text) { *text = status ? "it fails on purpose" : "no error"; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)(intptr_t)number("NT_CONTEXT", 1); return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    int architecture = number("NT_ARCHITECTURE", 90);
    switch (attribute) {
    case 75: *value = architecture / 10; return 0;
    case 76: *value = architecture % 10; return 0;
    case 16: *value = number("NT_MULTIPROCESSORS", 132); return 0;
    case 97: *value = 227 * 1024; return 0;
    }
    return 1;
}
int cuModuleLoadData(void **module, const void *code) {
    if (number("NT_FAILS", 0)) return number("NT_FAILS", 0);
    *module = (void *)code;
    return memcmp(code, "\177ELF", 4) ? 200 : 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    *function = strdup(name);
    return 0;
}
#ifndef WITHOUT_cuFuncSetAttribute
int cuFuncSetAttribute(void *function, int attribute, int value) {
    FILE *file = record();
    fprintf(file, "shared %s %d %d\n", (char *)function, attribute, value);
    fclose(file);
    return 0;
}
#endif
#ifndef WITHOUT_cuTensorMapEncodeTiled
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                           int swizzle, int promotion, int fill) {
    memset(map, 0, 128);
    snprintf(map, 128, "%d %p %llu %llu %u %u %u %d %d %d %d", type, address, (unsigned long long)sizes[0],
             (unsigned long long)strides[0], box[0], box[rank - 1], steps[0], interleave, swizzle, promotion, fill);
    return (uintptr_t)map % 64 ? 1 : 0;
}
#endif
/* NT_PARAMETERS has the bytes of each parameter. */
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    FILE *file = record();
    fprintf(file, "launch %s (%u, %u, %u) (%u, %u, %u) %u %p", (char *)function, x, y, z, tx, ty, tz, shared, stream);
    char *widths = strdup(getenv("NT_PARAMETERS")), *rest = widths;
    for (int i = 0; *rest && !extra; ++i) {
        long width = strtol(rest, &rest, 10);
        fprintf(file, " ");
        for (long j = 0; j < width; ++j) fprintf(file, "%02x", ((unsigned char *)parameters[i])[j]);
    }
    fprintf(file, "\n");
    free(widths);
    fclose(file);
    return 0;
}
struct configuration {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
};
int cuLaunchKernelEx(const struct configuration *c, void *function, void **parameters, void **extra) {
    if (number("NT_LAUNCH_FAILS", 0)) return number("NT_LAUNCH_FAILS", 0);
    return c->attributes || c->count ? 1
                                     : cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                                                      c->block[2], c->shared, c->stream, parameters, extra);
}
