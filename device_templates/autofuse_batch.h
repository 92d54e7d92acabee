// AUTOFUSE_BATCH_MODE marks a kernel whose cores wait for each other: it starts when all its cores are free, not core
// by core, so that two such kernels on two streams cannot deadlock, each with some of the cores. CANN supports this
// from 9.1 on. With older releases the macro is empty: run such kernels one after another, on one stream.
#ifndef AUTOFUSE_BATCH_H
#define AUTOFUSE_BATCH_H

#if !defined(AUTOFUSE_TWIN) && !defined(ASC_DEVKIT_MAJOR) && defined(__has_include)
#if __has_include("version/asc_devkit_version.h")
#include "version/asc_devkit_version.h"
#elif __has_include("ascendc/asc_devkit_version.h")
#include "ascendc/asc_devkit_version.h"
#endif
#endif

#if defined(ASC_DEVKIT_MAJOR) && defined(ASC_DEVKIT_MINOR)
#if ASC_DEVKIT_MAJOR > 9 || (ASC_DEVKIT_MAJOR == 9 && ASC_DEVKIT_MINOR >= 1)
#define AUTOFUSE_BATCH_MODE __schedmode__(1)
#endif
#endif
#ifndef AUTOFUSE_BATCH_MODE
#define AUTOFUSE_BATCH_MODE
#endif

#endif
