/* measure RESULT SECONDS COMMAND...: runs COMMAND and writes "wall user sys peak-RSS-KiB status" to RESULT (status: the exit code, 128+N
 * for signal N, 124 past SECONDS). Small and in C for two reasons: ru_maxrss of a child starts at its parent's peak until exec, and
 * Python's is larger than what is measured here; and starting Python's machinery would be counted. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t timed_out;
static pid_t child;

static void on_alarm(int number) {
    (void)number;
    timed_out = 1;
    kill(child, SIGKILL);
}

static void on_term(int number) {
    (void)number;
    if (child > 0) kill(child, SIGKILL);
    _exit(143);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: measure RESULT SECONDS COMMAND...\n");
        return 2;
    }
    signal(SIGALRM, on_alarm);
    signal(SIGTERM, on_term);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    child = fork();
    if (child < 0) return perror("fork"), 2;
    if (child == 0) {
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    alarm((unsigned)atoi(argv[2]));
    int status;
    struct rusage usage;
    while (wait4(child, &status, 0, &usage) != child) continue;
    clock_gettime(CLOCK_MONOTONIC, &end);
    alarm(0);

    double wall = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    int code = timed_out ? 124 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *result = fopen(argv[1], "w");
    if (result == NULL) return perror(argv[1]), 2;
    fprintf(result, "%.6f %.6f %.6f %ld %d\n", wall, seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_maxrss, code);
    return fclose(result) == 0 ? 0 : 2;
}
