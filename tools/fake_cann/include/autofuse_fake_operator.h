// What the aclnn functions that the fake CANN writes for an operator call.
#ifndef AUTOFUSE_FAKE_OPERATOR_H
#define AUTOFUSE_FAKE_OPERATOR_H

#include "aclnn/acl_meta.h"

// One call of an operator; `inside`: an address in the library of the package.
struct autofuse_fake_call {
    const void* inside;
    const char* type;
    const aclTensor* const* input;
    uint32_t inputs;
    const aclTensor* const* output;
    uint32_t outputs;
    const int64_t* attribute;
    uint32_t attributes;
};

extern "C" aclnnStatus autofuse_fake_prepare(const autofuse_fake_call* call, uint64_t* workspace_size,
                                             aclOpExecutor** executor);
extern "C" aclnnStatus autofuse_fake_execute(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                             aclrtStream stream);

#endif
