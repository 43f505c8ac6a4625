// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// A driver's library of two GPUs that are joined by four NVLinks, as drivers were that knew no more
// functions than these. Compiled with -DWITHOUT_name it lacks one of them.

#include <string.h>

typedef int ret;
typedef struct { int index; } *device;
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; } pciInfo;
typedef struct { unsigned long long total, free, used; } memory;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, TIMEOUT = 10 };

static struct { int index; } gpus[2] = {{0}, {1}};
static const char *buses[2] = {"00000000:07:00.0", "00000000:0A:00.0"};

ret nvmlInit_v2(void) { return SUCCESS; }
ret nvmlShutdown(void) { return SUCCESS; }

#ifndef WITHOUT_nvmlSystemGetDriverVersion
ret nvmlSystemGetDriverVersion(char *text, unsigned n) { strncpy(text, "384.00", n); return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetCount_v2
ret nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetHandleByIndex_v2
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) {
  if (i > 1) return INVALID_ARGUMENT;
  *d = (device)&gpus[i];
  return SUCCESS;
}
#endif
#ifndef WITHOUT_nvmlDeviceGetUUID
ret nvmlDeviceGetUUID(device d, char *text, unsigned n) { strncpy(text, d->index ? "GPU-b" : "GPU-a", n); return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetName
ret nvmlDeviceGetName(device d, char *text, unsigned n) { strncpy(text, "Tesla Old", n); return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetPciInfo_v3
ret nvmlDeviceGetPciInfo_v3(device d, pciInfo *p) { memset(p, 0, sizeof *p); strcpy(p->busId, buses[d->index]); return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetMinorNumber
ret nvmlDeviceGetMinorNumber(device d, unsigned *minor) { *minor = d->index; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetMemoryInfo
ret nvmlDeviceGetMemoryInfo(device d, memory *m) { m->total = 16ull << 30; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetCudaComputeCapability
ret nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) { *major = 6; *minor = 0; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetTopologyCommonAncestor
ret nvmlDeviceGetTopologyCommonAncestor(device a, device b, unsigned *level) { *level = 40; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetNvLinkCapability
ret nvmlDeviceGetNvLinkCapability(device d, unsigned link, unsigned capability, unsigned *result) {
  if (link > 3) return INVALID_ARGUMENT;
  *result = 1;
  return SUCCESS;
}
#endif
#ifndef WITHOUT_nvmlDeviceGetNvLinkState
ret nvmlDeviceGetNvLinkState(device d, unsigned link, unsigned *up) { *up = 1; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetNvLinkRemotePciInfo_v2
ret nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, pciInfo *p) {
  memset(p, 0, sizeof *p);
  strcpy(p->busId, buses[1 - d->index]);
  return SUCCESS;
}
#endif
#ifndef WITHOUT_nvmlDeviceGetNvLinkVersion
ret nvmlDeviceGetNvLinkVersion(device d, unsigned link, unsigned *version) { *version = 1; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetRetiredPagesPendingStatus
ret nvmlDeviceGetRetiredPagesPendingStatus(device d, unsigned *pending) { *pending = 0; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetTotalEccErrors
ret nvmlDeviceGetTotalEccErrors(device d, unsigned kind, unsigned counter, unsigned long long *n) { *n = 0; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceGetSupportedEventTypes
ret nvmlDeviceGetSupportedEventTypes(device d, unsigned long long *types) { *types = 8; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlEventSetCreate
ret nvmlEventSetCreate(void **set) { *set = &gpus; return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlDeviceRegisterEvents
ret nvmlDeviceRegisterEvents(device d, unsigned long long types, void *set) { return SUCCESS; }
#endif
#ifndef WITHOUT_nvmlEventSetWait_v2
ret nvmlEventSetWait_v2(void *set, void *event, unsigned ms) { return TIMEOUT; }
#endif
#ifndef WITHOUT_nvmlEventSetFree
ret nvmlEventSetFree(void *set) { return SUCCESS; }
#endif
