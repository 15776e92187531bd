/* Kernels that NineToothed has built ahead of time. Compile the source beside this with any C compiler (C11);
   it needs no header of CUDA and finds the driver when it runs (link with -ldl where dlopen is apart).

   Each launch_NAME chooses the variant for the sizes, strides and types that it is given, and launches it on `stream`
   in the current CUDA context. It returns NINETOOTHED_SUCCESS, or another result before anything is launched, and
   ninetoothed_message() then says why. Several threads may call it. */

#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef NINETOOTHED_TYPES
#define NINETOOTHED_TYPES

typedef enum {
    NINETOOTHED_SUCCESS,
    NINETOOTHED_NO_VARIANT, /* it was not built for arguments of this class */
    NINETOOTHED_WRONG_GPU,  /* it was not built for this GPU */
    NINETOOTHED_NO_DRIVER,  /* there is no driver of CUDA, or it is too old */
    NINETOOTHED_DRIVER,     /* the driver failed */
    NINETOOTHED_MEMORY      /* an output shares memory, or the workspace is missing */
} NineToothedResult;

typedef enum {
    NINETOOTHED_INT1 = 1, NINETOOTHED_INT8, NINETOOTHED_INT16, NINETOOTHED_INT32, NINETOOTHED_INT64,
    NINETOOTHED_UINT8, NINETOOTHED_UINT16, NINETOOTHED_UINT32, NINETOOTHED_UINT64,
    NINETOOTHED_FLOAT8E4NV, NINETOOTHED_FLOAT8E5,
    NINETOOTHED_FLOAT16, NINETOOTHED_BFLOAT16, NINETOOTHED_FLOAT32, NINETOOTHED_FLOAT64
} NineToothedDType;

/* Memory on the GPU. Strides count elements. */
typedef struct {
    void *data;
    const int64_t *shape;
    const int64_t *strides;
    int32_t ndim;
    NineToothedDType dtype;
} NineToothedTensor;

typedef void *NineToothedStream; /* a CUstream or cudaStream_t; NULL is the default stream */

#endif
