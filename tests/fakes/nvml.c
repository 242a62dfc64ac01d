/* libnvidia-ml.so.1 for machines without a GPU: a driver of a machine that the environment describes.

       cc -shared -fPIC -O1 -DAGE=2 -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvml.c

   AGE 2 has every function, 1 those of old drivers under their old names, 0 only what every driver has.

   Environment: FAKE_NVML_GPUS=N (8), FAKE_NVML_LINKS=switch|many|pairs|none (18 or 36 NVLinks of each GPU to switches, 4 to the GPU next
   to it, or none), FAKE_NVML_FAULTS=WORD,WORD...: `driver` (nvmlInit fails), and of GPU 1 `down` (links 3 and 7), `ecc`,
   `pending`, `hot`, `capped`, `lost`, `noise` (answers that are out of bounds). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };

typedef struct { uint64_t total, free, used; } Memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

static const char *said(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}
static unsigned gpus(void) { return (unsigned)strtoul(said("FAKE_NVML_GPUS", "8"), NULL, 10); }
static inline int linked(const char *how) { return strcmp(said("FAKE_NVML_LINKS", "switch"), how) == 0; }
static int fault(const char *word) {
    const char *at = said("FAKE_NVML_FAULTS", "");
    size_t length = strlen(word);
    for (; (at = strstr(at, word)); at += length)
        if (at[length] == 0 || at[length] == ',') return 1;
    return 0;
}

/* A handle is the index and one. */
static void *handle(unsigned index) { return (void *)(uintptr_t)(index + 1); }
static unsigned index_of(void *device) { return (unsigned)(uintptr_t)device - 1; }
static int faulty(void *device, const char *word) { return index_of(device) == 1 && fault(word); }

int nvmlInit_v2(void) { return fault("driver") ? DRIVER_NOT_LOADED : SUCCESS; }
const char *nvmlErrorString(int code) {
    return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : code == GPU_IS_LOST ? "GPU is lost" : "Something Else";
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return *version = 13010, SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { return snprintf(text, length, "580.65.06"), SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = gpus(), SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = handle(index);
    return index >= gpus() ? INVALID_ARGUMENT : faulty(*device, "lost") ? GPU_IS_LOST : SUCCESS;
}
int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    if (faulty(device, "noise")) return memset(text, 0xff, length), SUCCESS;
    return snprintf(text, length, "NVIDIA H100 80GB HBM3"), SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    *memory = (Memory){80ull << 30, 80ull << 30, 0};
    if (faulty(device, "noise")) memory->used = UINT64_MAX;
    return SUCCESS;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) { return (void)device, *width = 16, SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width) { return (void)device, *width = 16, SUCCESS; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *number) { return (void)device, *number = 5, SUCCESS; }

#if AGE > 0
static int switched(void) { return linked("switch") || linked("many"); }
/* Links that the driver has a name for. */
static unsigned most_links(void) { return linked("many") ? 36 : 18; }
static unsigned links(void) { return switched() ? most_links() : linked("pairs") ? 4 : 0; }

int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    return pci->bus = 16 + index_of(device), SUCCESS;
}
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, unsigned *level) {
    *level = faulty(one, "noise") || faulty(other, "noise") ? 4000000000u : index_of(one) / 2 == index_of(other) / 2 ? 30 : 50;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) {
    if (link >= links()) return link < most_links() ? NOT_SUPPORTED : INVALID_ARGUMENT;
    *state = faulty(device, "noise") ? 77 : !(faulty(device, "down") && (link == 3 || link == 7));
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, Pci *pci) {
    if (link >= links()) return NOT_SUPPORTED;
    memset(pci, 0, sizeof *pci);
    return pci->bus = switched() ? 1 + link % 4 : 16 + (index_of(device) ^ 1), SUCCESS;
}
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *later) {
    return (void)device, *now = *later = 1, SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, unsigned long long *errors) {
    if (kind > 1 || counter > 1) return INVALID_ARGUMENT;
    *errors = faulty(device, "noise") ? UINT64_MAX : faulty(device, "ecc") ? (kind ? 3 : 40) + 2 * counter : 0;
    return SUCCESS;
}
#endif

static inline unsigned long long reasons(void *device) {
    if (faulty(device, "noise")) return UINT64_MAX;
    return faulty(device, "hot") ? 0x48 : faulty(device, "capped") ? 0x4 : 0x1;
}
#if AGE == 1
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) {
    return *bits = reasons(device), SUCCESS;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *device, unsigned *pending) {
    return *pending = faulty(device, "pending"), SUCCESS;
}
#elif AGE == 2
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *bits) {
    return *bits = reasons(device), SUCCESS;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *failed = 0;
    *uncorrected = *pending = faulty(device, "pending");
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type) {
    if (link >= links()) return NOT_SUPPORTED;
    return (void)device, *type = switched() ? 2 : 0, SUCCESS;
}
int nvmlDeviceGetNvLinkCapability(void *device, unsigned link, unsigned capability, unsigned *result) {
    if (link >= links() || capability != 5) return INVALID_ARGUMENT;
    return (void)device, *result = 1, SUCCESS;
}
#endif
