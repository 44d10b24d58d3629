/* How many packets per second does the kernel take from one thread over loopback, whoever sends them?
 *
 * Usage: pps BYTES SECONDS     one connected UDP socket, sendmmsg of 64 messages set up once, nothing written into them, no clock
 * but one reading a call. Nobody takes the packets: the receiving socket's buffer is full after a moment and the rest is dropped
 * there, so that no receiver costs the sender anything. Prints packets per second handed over: a ceiling for any program that
 * sends packets one by one (no UDP_SEGMENT) from one thread.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void must(int fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

int main(int count, char **words) {
    must(count == 3, "usage: pps BYTES SECONDS");
    size_t bytes = strtoul(words[1], NULL, 10);
    double span = strtod(words[2], NULL);
    int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
    must(receiver >= 0 && sender >= 0, "socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    must(bind(receiver, (struct sockaddr *)&address, length) == 0, "bind");
    must(getsockname(receiver, (struct sockaddr *)&address, &length) == 0, "getsockname");
    must(connect(sender, (struct sockaddr *)&address, length) == 0, "connect");
    char *packet = calloc(1, bytes);
    struct iovec piece = {packet, bytes};
    struct mmsghdr headers[BATCH] = {0};
    for (int i = 0; i < BATCH; i++) {
        headers[i].msg_hdr.msg_iov = &piece;
        headers[i].msg_hdr.msg_iovlen = 1;
    }
    unsigned long sent = 0;
    double start = now(), end;
    while ((end = now()) - start < span) {
        int left = sendmmsg(sender, headers, BATCH, 0);
        must(left > 0, "sendmmsg");
        sent += left;
    }
    printf("%.0f\n", sent / (end - start));
    return 0;
}
