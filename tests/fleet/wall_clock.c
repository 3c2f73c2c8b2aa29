/* Preloaded, this sets a process's wall clock so many seconds ahead as the file WALL_CLOCK says, and leaves all other clocks alone.
   libfaketime would do, but its 0.9.10 of Debian 12 also replaces the sleep and the waits of Python 3.11, and breaks both. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The file is as long as a number of seconds and written in place, so that a step reaches every process at once. */
static time_t ahead(void) {
    static const char *text;
    if (text == NULL) {
        const char *path = getenv("WALL_CLOCK");
        int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 32, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0)
            close(file);
        text = mapped == MAP_FAILED ? "0" : mapped;
    }
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now != NULL)
        *now = found.tv_sec;
    return found.tv_sec;
}
