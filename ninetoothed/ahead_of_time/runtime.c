#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#endif
#include "@HEADER@"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char nt_message[512];

static NineToothedResult nt_fail(NineToothedResult result, const char *format, ...) {
    va_list given;
    va_start(given, format);
    vsnprintf(nt_message, sizeof nt_message, format, given);
    va_end(given);
    return result;
}

const char *@NAME@_message(void) { return nt_message; }

/* Sizes are at least 0, and a quotient by 0 is 0. */
static inline int64_t nt_quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
static inline int64_t nt_remainder(int64_t a, int64_t b) { return b == 0 ? 0 : a - b * nt_quotient(a, b); }
static inline int64_t nt_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t nt_greatest(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int nt_bits(int64_t n) {
    int bits = 0;
    for (; n > 0; n >>= 1) ++bits;
    return bits;
}
static inline int nt_distance(int64_t a, int64_t b) {
    int difference = nt_bits(a) - nt_bits(b);
    return difference < 0 ? -difference : difference;
}
static inline int64_t nt_gcd(int64_t a, int64_t b) {
    while (b != 0) { int64_t rest = a % b; a = b; b = rest; }
    return a;
}

static const int nt_widths[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8};

/* The bytes from the first to the end of the last element; 0 where there is none. */
static int64_t nt_span(const NineToothedTensor *t) {
    int64_t last = 0;
    for (int32_t i = 0; i < t->ndim; ++i) {
        if (t->shape[i] == 0) return 0;
        last += (t->shape[i] - 1) * t->strides[i];
    }
    return (last + 1) * nt_widths[t->dtype];
}
/* Whether one has an address between those of the other, whichever elements are there. */
static int nt_shares(const NineToothedTensor *a, const NineToothedTensor *b, int in_place) {
    const char *first = a->data, *second = b->data;
    int64_t spans[2] = {nt_span(a), nt_span(b)};
    if (spans[0] == 0 || spans[1] == 0 || first + spans[0] <= second || second + spans[1] <= first) return 0;
    if (!in_place || first != second || a->ndim != b->ndim || nt_widths[a->dtype] != nt_widths[b->dtype]) return 1;
    size_t bytes = sizeof(int64_t) * (size_t)a->ndim;
    return memcmp(a->shape, b->shape, bytes) != 0 || memcmp(a->strides, b->strides, bytes) != 0;
}
/* Whether two elements are at one place. */
static int nt_overlaps(const NineToothedTensor *t) {
    for (int32_t i = 0; i < t->ndim; ++i) if (t->shape[i] == 0) return 0;
    for (int32_t i = 0; i < t->ndim; ++i) {
        if (t->shape[i] > 1 && t->strides[i] == 0) return 1;
        for (int32_t j = i + 1; j < t->ndim; ++j) {
            if (t->shape[i] < 2 || t->shape[j] < 2 || t->strides[j] == 0) continue;
            int64_t common = nt_gcd(t->strides[i], t->strides[j]);
            if (t->strides[j] / common < t->shape[i] && t->strides[i] / common < t->shape[j]) return 1;
        }
    }
    return 0;
}

/* -- CUDA's driver -- */

static struct {
    int (*cuGetErrorString)(int, const char **);
    int (*cuDriverGetVersion)(int *);
    int (*cuCtxGetCurrent)(void **);
    int (*cuCtxGetDevice)(int *);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuFuncSetAttribute)(void *, int, int);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **);
    int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                                  const uint32_t *, int, int, int, int);
} nt_cuda;

typedef struct {
    void *context;
    int architecture, multiprocessors, shared_memory;
    void *functions[@COUNT@];
} nt_context;

enum { NT_CONTEXTS = 64 };
static nt_context nt_contexts[NT_CONTEXTS];
static int nt_context_count, nt_is_open;
static atomic_flag nt_lock = ATOMIC_FLAG_INIT;

static void nt_enter(void) { while (atomic_flag_test_and_set_explicit(&nt_lock, memory_order_acquire)) {} }
static void nt_leave(void) { atomic_flag_clear_explicit(&nt_lock, memory_order_release); }

static NineToothedResult nt_driver_error(int status, const char *what) {
    const char *text = NULL;
    int version = 0;
    nt_cuda.cuGetErrorString(status, &text);
    nt_cuda.cuDriverGetVersion(&version);
    return nt_fail(NINETOOTHED_DRIVER, "CUDA's driver %d.%d could not %s: %s (error %d)", version / 1000,
                   version % 1000 / 10, what, text ? text : "it does not say why", status);
}

static NineToothedResult nt_open(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) return nt_fail(NINETOOTHED_NO_DRIVER, "there is no driver of CUDA: %s", dlerror());
    static const struct { const char *name; int is_needed; } symbols[] = {
        {"cuGetErrorString", 1}, {"cuDriverGetVersion", 1}, {"cuCtxGetCurrent", 1}, {"cuCtxGetDevice", 1},
        {"cuDeviceGetAttribute", 1}, {"cuModuleLoadData", 1}, {"cuModuleGetFunction", 1}, {"cuFuncSetAttribute", 1},
        {"cuLaunchKernel", 1}, {"cuTensorMapEncodeTiled", 0}};
    char *slot = (char *)&nt_cuda;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; ++i, slot += sizeof(void *)) {
        void *found = dlsym(library, symbols[i].name);
        if (found == NULL && symbols[i].is_needed)
            return nt_fail(NINETOOTHED_NO_DRIVER, "CUDA's driver is too old: it has no %s", symbols[i].name);
        memcpy(slot, &found, sizeof found);
    }
    nt_is_open = 1;
    return NINETOOTHED_SUCCESS;
}

/* Describe the current context; the lock is held. */
static NineToothedResult nt_current(nt_context **found) {
    void *context = NULL;
    int status, device = 0, major = 0, minor = 0;
    if (!nt_is_open) {
        NineToothedResult result = nt_open();
        if (result != NINETOOTHED_SUCCESS) return result;
    }
    if ((status = nt_cuda.cuCtxGetCurrent(&context)) != 0) return nt_driver_error(status, "tell the context");
    if (context == NULL) return nt_fail(NINETOOTHED_DRIVER, "this thread has no current CUDA context; make one");
    for (int i = 0; i < nt_context_count; ++i) {
        if (nt_contexts[i].context == context) {
            *found = &nt_contexts[i];
            return NINETOOTHED_SUCCESS;
        }
    }
    if (nt_context_count == NT_CONTEXTS)
        return nt_fail(NINETOOTHED_DRIVER, "there are more than %d CUDA contexts", NT_CONTEXTS);
    nt_context *fresh = &nt_contexts[nt_context_count];
    memset(fresh, 0, sizeof *fresh);
    fresh->context = context;
    if ((status = nt_cuda.cuCtxGetDevice(&device)) != 0 ||
        (status = nt_cuda.cuDeviceGetAttribute(&major, 75, device)) != 0 ||
        (status = nt_cuda.cuDeviceGetAttribute(&minor, 76, device)) != 0 ||
        (status = nt_cuda.cuDeviceGetAttribute(&fresh->multiprocessors, 16, device)) != 0 ||
        (status = nt_cuda.cuDeviceGetAttribute(&fresh->shared_memory, 97, device)) != 0)
        return nt_driver_error(status, "describe the GPU");
    fresh->architecture = 10 * major + minor;
    ++nt_context_count;
    *found = fresh;
    return NINETOOTHED_SUCCESS;
}

static int nt_runs(const nt_context *context, int architecture, int shared) {
    int is_own = architecture == context->architecture;
    int is_family = architecture < 90 && architecture / 10 == context->architecture / 10 &&
                    architecture < context->architecture;
    return (is_own || is_family) && shared <= context->shared_memory;
}

/* Load a variant into a context, once; the lock is held. */
static NineToothedResult nt_load(nt_context *context, int variant, const void *code, const char *name, int shared) {
    void *module = NULL, *function = NULL;
    int status;
    if (context->functions[variant] != NULL) return NINETOOTHED_SUCCESS;
    if ((status = nt_cuda.cuModuleLoadData(&module, code)) != 0)
        return nt_driver_error(status, "load the machine code of @ASSEMBLER@");
    if ((status = nt_cuda.cuModuleGetFunction(&function, module, name)) != 0)
        return nt_driver_error(status, "find the kernel in the machine code");
    if (shared > 48 * 1024 && (status = nt_cuda.cuFuncSetAttribute(function, 8, shared)) != 0)
        return nt_driver_error(status, "give a program so much shared memory");
    context->functions[variant] = function;
    return NINETOOTHED_SUCCESS;
}

static inline NineToothedResult nt_describe(void *map, void *data, int type, int width, int swizzle, uint32_t rank,
                                            const int64_t *sizes, const int64_t *strides, const uint32_t *block) {
    uint64_t shape[5], steps[5];
    uint32_t box[5], ones[5] = {1, 1, 1, 1, 1};
    if (nt_cuda.cuTensorMapEncodeTiled == NULL)
        return nt_fail(NINETOOTHED_NO_DRIVER, "CUDA's driver is too old: it has no descriptors of tensors");
    for (uint32_t i = 0; i < rank; ++i) {
        shape[rank - 1 - i] = (uint64_t)sizes[i];
        box[rank - 1 - i] = block[i];
        if (i + 1 < rank) steps[rank - 2 - i] = (uint64_t)(width * strides[i]);
    }
    int status = nt_cuda.cuTensorMapEncodeTiled(map, type, rank, data, shape, steps, box, ones, 0, swizzle, 2, 0);
    return status == 0 ? NINETOOTHED_SUCCESS : nt_driver_error(status, "encode the descriptor of a tensor");
}

static inline NineToothedResult nt_launch(void *function, int64_t x, int64_t y, int64_t z, int threads, int shared,
                                          void *stream, void **parameters) {
    int status = nt_cuda.cuLaunchKernel(function, (unsigned)x, (unsigned)y, (unsigned)z, (unsigned)threads, 1, 1,
                                        (unsigned)shared, stream, parameters, NULL);
    return status == 0 ? NINETOOTHED_SUCCESS : nt_driver_error(status, "launch");
}
