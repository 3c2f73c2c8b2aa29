/* A stand-in for libnvidia-ml.so.1, for tests over the real Python bindings.
 *
 * What it answers stands in the text file that NVML_STUB_STATE names, read anew at every call, one fact a line:
 *
 *     device INDEX used BYTES         memory in use; total 16 GiB, of which 512 MiB are the driver's own
 *     device INDEX utilization PCT
 *     device INDEX compute PID BYTES  (BYTES `unknown`: the driver does not tell)
 *     device INDEX graphics PID BYTES
 *     device INDEX mps PID BYTES
 *     device INDEX sample PID TIME PCT
 *     device INDEX mig COUNT          this many slices, memory only
 *     fail INDEX FUNCTION CODE        FUNCTION (`*`: every one) returns CODE for this device
 *     count N                         how many GPUs there are
 *
 * Each call is written to NVML_STUB_LOG, if set: function and device index.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define ERROR_INVALID_ARGUMENT 2
#define ERROR_NOT_SUPPORTED 3
#define ERROR_NOT_FOUND 6
#define ERROR_INSUFFICIENT_SIZE 7
#define UNKNOWN (~0ULL)
#define GIB (1ULL << 30)
#define SLICE 100 /* handle 100 * (device + 1) + slice */

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { u32 gpu, memory; } rates;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } process;
typedef struct { u32 pid; u64 time; u32 sm, memory, encoder, decoder; } sample;

typedef int (*visitor)(const char *line, void *into);

static void each_line(visitor visit, void *into) {
    char line[256];
    const char *path = getenv("NVML_STUB_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    while (fgets(line, sizeof line, file)) visit(line, into);
    fclose(file);
}

struct failure { const char *function; long device; int code; };

static int visit_failure(const char *line, void *into) {
    struct failure *wanted = into;
    char function[64];
    long device;
    int code;
    if (sscanf(line, "fail %ld %63s %d", &device, function, &code) == 3 && device == wanted->device &&
        (!strcmp(function, "*") || !strcmp(function, wanted->function)))
        wanted->code = code;
    return 0;
}

static int ask(const char *function, long device) {
    struct failure failure = {function, device >= SLICE ? device / SLICE - 1 : device, OK};
    const char *log = getenv("NVML_STUB_LOG");
    FILE *file = log ? fopen(log, "a") : NULL;
    if (file) {
        fprintf(file, "%s %ld\n", function, device);
        fclose(file);
    }
    each_line(visit_failure, &failure);
    return failure.code;
}

#define ASK(device)                                  \
    do {                                             \
        int code_ = ask(__func__, (long)(device)-1); \
        if (code_ != OK) return code_;               \
    } while (0)

struct number { long device; const char *name; u64 value; };

static int visit_number(const char *line, void *into) {
    struct number *wanted = into;
    char name[64];
    long device;
    u64 value;
    if (sscanf(line, "device %ld %63s %llu", &device, name, &value) == 3 && device == wanted->device &&
        !strcmp(name, wanted->name))
        wanted->value = value;
    return 0;
}

static u64 number_of(void *handle, const char *name, u64 otherwise) {
    long device = (long)handle - 1;
    struct number wanted = {device >= SLICE ? device / SLICE - 1 : device, name, otherwise};
    each_line(visit_number, &wanted);
    return wanted.value;
}

static int visit_count(const char *line, void *into) {
    sscanf(line, "count %u", (u32 *)into);
    return 0;
}

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    return ask(__func__, -1);
}

int nvmlShutdown(void) { return ask(__func__, -1); }

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stub error %d", code);
    return text;
}

int nvmlDeviceGetCount_v2(u32 *count) {
    *count = 2;
    each_line(visit_count, count);
    return ask(__func__, -1);
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **handle) {
    *handle = (void *)(long)(index + 1);
    ASK(*handle);
    return OK;
}

int nvmlDeviceGetName(void *device, char *name, u32 length) {
    ASK(device);
    snprintf(name, length, (long)device > SLICE ? "NVIDIA Stub 1000 MIG 1g.8gb" : "NVIDIA Stub 1000");
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, u32 length) {
    ASK(device);
    if ((long)device > SLICE)
        snprintf(uuid, length, "MIG-%ld", (long)device - 1);
    else
        snprintf(uuid, length, "GPU-%ld", (long)device - 1);
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory) {
    ASK(device);
    memory->total = 16 * GIB;
    memory->reserved = GIB / 2;
    memory->used = number_of(device, "used", 0);
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory) {
    ASK(device);
    memory->total = 16 * GIB;
    memory->used = number_of(device, "used", 0) + GIB / 2;
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, rates *found) {
    ASK(device);
    found->gpu = (u32)number_of(device, "utilization", 0);
    found->memory = 0;
    return OK;
}

struct processes { long device; const char *mode; u32 count, room; process *found; };

static int visit_process(const char *line, void *into) {
    struct processes *wanted = into;
    char mode[64], bytes[64];
    long device;
    u32 pid;
    if (sscanf(line, "device %ld %63s %u %63s", &device, mode, &pid, bytes) != 4 || device != wanted->device ||
        strcmp(mode, wanted->mode))
        return 0;
    if (wanted->count < wanted->room)
        wanted->found[wanted->count] =
            (process){pid, strcmp(bytes, "unknown") ? strtoull(bytes, NULL, 10) : UNKNOWN, ~0u, ~0u};
    wanted->count++;
    return 0;
}

static int list(void *device, const char *mode, u32 *count, process *found) {
    struct processes wanted = {(long)device - 1, mode, 0, found ? *count : 0, found};
    each_line(visit_process, &wanted);
    int fits = wanted.count <= wanted.room;
    *count = wanted.count;
    return fits ? OK : ERROR_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "compute", count, found);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "graphics", count, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "mps", count, found);
}

struct samples { long device; u64 since; u32 count, room; sample *found; };

static int visit_sample(const char *line, void *into) {
    struct samples *wanted = into;
    long device;
    u32 pid, sm;
    u64 time;
    if (sscanf(line, "device %ld sample %u %llu %u", &device, &pid, &time, &sm) != 4 || device != wanted->device ||
        time <= wanted->since)
        return 0;
    if (wanted->count < wanted->room) wanted->found[wanted->count] = (sample){pid, time, sm, 0, 0, 0};
    wanted->count++;
    return 0;
}

int nvmlDeviceGetProcessUtilization(void *device, sample *found, u32 *count, u64 since) {
    ASK(device);
    struct samples wanted = {(long)device - 1, since, 0, found ? *count : 0, found};
    each_line(visit_sample, &wanted);
    *count = wanted.count;
    if (wanted.count == 0) return ERROR_NOT_FOUND;
    return wanted.count <= wanted.room ? OK : ERROR_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetMigMode(void *device, u32 *current, u32 *pending) {
    ASK(device);
    u64 slices = number_of(device, "mig", UNKNOWN);
    if (slices == UNKNOWN) return ERROR_NOT_SUPPORTED;
    *current = *pending = 1;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, u32 *count) {
    ASK(device);
    *count = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, u32 index, void **slice) {
    ASK(device);
    if (index >= number_of(device, "mig", 0)) return ERROR_NOT_FOUND;
    *slice = (void *)((long)device * SLICE + index + 1);
    return OK;
}
