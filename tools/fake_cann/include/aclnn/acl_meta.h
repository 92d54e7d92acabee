// Tensors of aclnn calls, as the public documentation of CANN has them.
#ifndef AUTOFUSE_FAKE_ACL_META_H
#define AUTOFUSE_FAKE_ACL_META_H

#include <stdint.h>

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;
typedef struct aclTensor aclTensor;
typedef struct aclOpExecutor aclOpExecutor;

typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_BF16 = 27
} aclDataType;

typedef enum { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_ND = 2 } aclFormat;

enum {
    ACLNN_SUCCESS = 0,
    ACLNN_ERR_PARAM_NULLPTR = 161001,
    ACLNN_ERR_PARAM_INVALID = 161002,
    ACLNN_ERR_RUNTIME_ERROR = 361001,
    ACLNN_ERR_INNER_TILING_ERROR = 561003,
    ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561107
};

aclTensor* aclCreateTensor(const int64_t* view_dims, uint64_t view_dims_num, aclDataType data_type, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dims_num,
                           void* tensor_data);
aclnnStatus aclDestroyTensor(const aclTensor* tensor);

#ifdef __cplusplus
}
#endif

#endif
