/* A stand-in for libnvidia-ml.so.1, for tests over the real Python bindings.
 *
 * What it answers stands in the text file that NVML_STUB_STATE names, read anew at every call, one fact a line:
 *
 *     device INDEX used BYTES         memory in use; total 16 GiB, of which 512 MiB are the driver's own, unless `total` and
 *                                     `reserved` say otherwise
 *     device INDEX utilization PCT
 *     device INDEX compute PID BYTES  (BYTES `unknown`: the driver does not tell)
 *     device INDEX graphics PID BYTES
 *     device INDEX mps PID BYTES
 *     device INDEX sample PID TIME PCT
 *     device INDEX mig COUNT          this many slices; slice S of GPU G is INDEX 100 * (G + 1) + S, its instance S + 1
 *     device INDEX bus PCT            the time in which the memory was busy
 *     device INDEX power MILLIWATTS | energy MILLIJOULES | temperature C | throttling BITS | recovery ACTION
 *     device INDEX mode MODE          its compute mode, as nvml.h numbers it
 *     device INDEX gpm BUSY SM BANDWIDTH   counters; a metric is their difference between two samples, -1 is none
 *     event NUMBER DEVICE XID INSTANCE     delivered once, in the order of NUMBER (from 1); INSTANCE -1 for none
 *     fail INDEX FUNCTION CODE        FUNCTION (`*`: every one) returns CODE for this device
 *     count N                         how many GPUs there are
 *
 * Each call is written to NVML_STUB_LOG, if set: function and device index. With NVML_STUB_ONCE the state is read at the first
 * call only: to read a file takes several times as long as most calls of a real driver.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define ERROR_INVALID_ARGUMENT 2
#define ERROR_NOT_SUPPORTED 3
#define ERROR_NOT_FOUND 6
#define ERROR_INSUFFICIENT_SIZE 7
#define ERROR_TIMEOUT 10
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

typedef struct { void *device; u64 type, data; u32 gpu_instance, compute_instance; } event;
typedef struct { u32 field, scope; long long time, latency; u32 type, result; union { u32 number; u64 room; } value; } field_value;
typedef struct { u32 id, result; double value; const char *names[3]; } metric;
typedef struct { double counters[3]; } counters;
typedef struct { u32 version, count; counters *older, *newer; metric metrics[]; } metrics_get;

typedef int (*visitor)(const char *line, void *into);

static const char *state(void) {
    static char text[1 << 16];
    static int was_read;
    const char *path = getenv("NVML_STUB_STATE");
    if (was_read && getenv("NVML_STUB_ONCE")) return text;
    FILE *file = path ? fopen(path, "r") : NULL;
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
    if (file) fclose(file);
    was_read = 1;
    return text;
}

/* Only lines that begin with `prefix` are copied and parsed, since a real driver answers most calls within microseconds. */
static void each_line(const char *prefix, visitor visit, void *into) {
    size_t least = strlen(prefix);
    for (const char *at = state(); *at;) {
        size_t length = strcspn(at, "\n");
        if (length >= least && !memcmp(at, prefix, least)) {
            char line[256];
            size_t kept = length < sizeof line ? length : sizeof line - 1;
            memcpy(line, at, kept);
            line[kept] = 0;
            visit(line, into);
        }
        at += length + (at[length] == '\n');
    }
}

static void each_line_of(long device, visitor visit, void *into) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "device %ld ", device);
    each_line(prefix, visit, into);
}

struct failure { const char *function; long device; int code; };

static int visit_failure(const char *line, void *into) {
    struct failure *wanted = into;
    char function[64];
    long device;
    int code;
    if (line[0] == 'f' && sscanf(line, "fail %ld %63s %d", &device, function, &code) == 3 && device == wanted->device &&
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
    each_line("fail ", visit_failure, &failure);
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
    u64 value;
    char *rest;
    if (strncmp(line, "device ", 7) || strtol(line + 7, &rest, 10) != wanted->device) return 0;
    if (sscanf(rest, "%63s %llu", name, &value) == 2 && !strcmp(name, wanted->name)) wanted->value = value;
    return 0;
}

static u64 number_of(void *handle, const char *name, u64 otherwise) {
    long device = (long)handle - 1;
    struct number wanted = {device >= SLICE ? device / SLICE - 1 : device, name, otherwise};
    each_line_of(wanted.device, visit_number, &wanted);
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

int nvmlSystemGetDriverVersion(char *version, u32 length) {
    snprintf(version, length, "580.00.00");
    return ask(__func__, -1);
}

int nvmlSystemGetNVMLVersion(char *version, u32 length) {
    snprintf(version, length, "13.580.00");
    return ask(__func__, -1);
}

int nvmlDeviceGetCount_v2(u32 *count) {
    *count = 2;
    each_line("count ", visit_count, count);
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
    memory->total = number_of(device, "total", 16 * GIB);
    memory->reserved = number_of(device, "reserved", GIB / 2);
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
    if ((long)device > SLICE) return ERROR_NOT_SUPPORTED;
    found->gpu = (u32)number_of(device, "utilization", 0);
    found->memory = (u32)number_of(device, "bus", 0);
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
    each_line_of(wanted.device, visit_process, &wanted);
    int fits = wanted.count <= wanted.room;
    *count = wanted.count;
    return fits ? OK : ERROR_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "compute", count, found);
}

/* Drivers before the third version of these. */
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "compute", count, found);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v2(void *device, u32 *count, process *found) {
    ASK(device);
    return list(device, "mps", count, found);
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
    each_line_of(wanted.device, visit_sample, &wanted);
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

int nvmlDeviceGetGpuInstanceId(void *device, u32 *instance) {
    ASK(device);
    if ((long)device <= SLICE) return ERROR_NOT_SUPPORTED;
    *instance = (u32)((long)device % SLICE);
    return OK;
}

/* A fact that a GPU has or does not support. Asked for a slice, the whole GPU's is told: nobody should ask so. */
#define FACT(name, type)                                     \
    do {                                                     \
        ASK(device);                                         \
        u64 fact_ = number_of(device, name, UNKNOWN);        \
        if (fact_ == UNKNOWN) return ERROR_NOT_SUPPORTED;    \
        *found = (type)fact_;                                \
        return OK;                                           \
    } while (0)

int nvmlDeviceGetPowerUsage(void *device, u32 *found) { FACT("power", u32); }
int nvmlDeviceGetTotalEnergyConsumption(void *device, u64 *found) { FACT("energy", u64); }
int nvmlDeviceGetCurrentClocksEventReasons(void *device, u64 *found) { FACT("throttling", u64); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, u64 *found) { FACT("throttling", u64); }
int nvmlDeviceGetTemperature(void *device, u32 sensor, u32 *found) {
    if (sensor != 0) return ERROR_INVALID_ARGUMENT;
    FACT("temperature", u32);
}

int nvmlDeviceGetComputeMode(void *device, u32 *found) { FACT("mode", u32); }

int nvmlDeviceGetFieldValues(void *device, int count, field_value *values) {
    ASK(device);
    for (int index = 0; index < count; index++) {
        u64 action = values[index].field == 230 ? number_of(device, "recovery", UNKNOWN) : UNKNOWN;
        values[index].result = action == UNKNOWN ? ERROR_NOT_SUPPORTED : OK;
        values[index].type = 1;
        values[index].value.number = (u32)action;
    }
    return OK;
}

/* --- counters of Hopper and newer --- */

struct wanted_counters { long device; int found; counters *into; };

static int visit_counters(const char *line, void *into) {
    struct wanted_counters *wanted = into;
    long device;
    counters seen;
    if (sscanf(line, "device %ld gpm %lf %lf %lf", &device, &seen.counters[0], &seen.counters[1], &seen.counters[2]) == 4 &&
        device == wanted->device) {
        *wanted->into = seen;
        wanted->found = 1;
    }
    return 0;
}

static int take_counters(long device, counters *into) {
    struct wanted_counters wanted = {device, 0, into};
    each_line_of(wanted.device, visit_counters, &wanted);
    return wanted.found ? OK : ERROR_NOT_SUPPORTED;
}

static int visit_gpm(const char *line, void *into) {
    long device, *wanted = into;
    if (sscanf(line, "device %ld gpm", &device) == 1 && strstr(line, " gpm ") &&
        (device == *wanted || device / SLICE - 1 == *wanted))
        *wanted = -1;
    return 0;
}

int nvmlGpmQueryDeviceSupport(void *device, u32 *version_and_support) {
    ASK(device);
    if (version_and_support[0] != 1) return ERROR_INVALID_ARGUMENT;
    long wanted = (long)device - 1;
    each_line("device ", visit_gpm, &wanted);
    version_and_support[1] = wanted == -1;
    return OK;
}

int nvmlGpmSampleAlloc(counters **sample) {
    *sample = calloc(1, sizeof **sample);
    return ask(__func__, -1);
}

int nvmlGpmSampleFree(counters *sample) {
    free(sample);
    return ask(__func__, -1);
}

int nvmlGpmSampleGet(void *device, counters *sample) {
    ASK(device);
    return take_counters((long)device - 1, sample);
}

int nvmlGpmMigSampleGet(void *device, u32 instance, counters *sample) {
    ASK(device);
    return take_counters(SLICE * (long)device + instance - 1, sample);
}

int nvmlGpmMetricsGet(metrics_get *asked) {
    static const u32 known[] = {1, 2, 10}; /* of nvmlGpmMetricId_t: anything active, multiprocessors, memory bandwidth */
    if (asked->version != 1) return ERROR_INVALID_ARGUMENT;
    for (u32 index = 0; index < asked->count; index++) {
        metric *one = &asked->metrics[index];
        one->result = ERROR_NOT_SUPPORTED;
        for (int which = 0; which < 3; which++) {
            double newer = asked->newer->counters[which];
            if (one->id != known[which]) continue;
            one->result = OK;
            one->value = newer < 0 ? NAN : newer - asked->older->counters[which];
        }
    }
    return ask(__func__, -1);
}

/* --- errors --- */

static int listening[SLICE];

int nvmlEventSetCreate(void **set) {
    *set = (void *)1;
    return ask(__func__, -1);
}

int nvmlEventSetFree(void *set) {
    (void)set;
    return ask(__func__, -1);
}

int nvmlDeviceGetSupportedEventTypes(void *device, u64 *types) {
    ASK(device);
    *types = 0x1f;
    return OK;
}

int nvmlDeviceRegisterEvents(void *device, u64 types, void *set) {
    ASK(device);
    if (types != 8 || set != (void *)1 || (long)device > SLICE) return ERROR_INVALID_ARGUMENT;
    listening[(long)device - 1] = 1;
    return OK;
}

struct wanted_event { int after, number; event *into; };

static int visit_event(const char *line, void *into) {
    struct wanted_event *wanted = into;
    int number, instance;
    long device;
    u64 xid;
    if (sscanf(line, "event %d %ld %llu %d", &number, &device, &xid, &instance) == 4 && number > wanted->after &&
        (wanted->number == 0 || number < wanted->number)) {
        wanted->number = number;
        *wanted->into = (event){(void *)(device + 1), 8, xid, (u32)instance, (u32)instance};
    }
    return 0;
}

int nvmlEventSetWait_v2(void *set, event *found, u32 milliseconds) {
    static int delivered;
    struct wanted_event wanted = {delivered, 0, found};
    int code = ask(__func__, -1);
    (void)milliseconds;
    if (code != OK || set != (void *)1) return code ? code : ERROR_INVALID_ARGUMENT;
    each_line("event ", visit_event, &wanted);
    if (wanted.number == 0) return ERROR_TIMEOUT;
    delivered = wanted.number;
    return listening[(long)found->device - 1] ? OK : ERROR_TIMEOUT;
}
