/* bare HOST PORT PATH OUT [PIECE]: the least a download can be, as a yardstick. One plain HTTP/1.1 GET on one connection; read(2)
 * until PIECE bytes (1 MiB) are there, then one write(2), at a multiple of PIECE. No checks beyond the status line, no resume, no name to protect: nothing a user should want. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST (4 << 20)

static char buffer[MOST + 1];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void write_all(int fd, const char *from, size_t length) {
    while (length > 0) {
        ssize_t wrote = write(fd, from, length);
        if (wrote < 0) die("write");
        from += wrote;
        length -= (size_t)wrote;
    }
}

int main(int argc, char **argv) {
    size_t full = argc == 6 ? strtoul(argv[5], NULL, 10) : 1 << 20;
    if (argc < 5 || argc > 6 || full < 4096 || full > MOST) {
        fprintf(stderr, "usage: bare HOST PORT PATH OUT [PIECE] (HOST as an IPv4 address, PIECE in bytes, 4096 to %d)\n", MOST);
        return 2;
    }
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
    if (inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) die("address");
    int in = socket(AF_INET, SOCK_STREAM, 0);
    if (in < 0 || connect(in, (struct sockaddr *)&server, sizeof server) < 0) die("connect");
    int out = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (out < 0) die("open");

    int length = snprintf(buffer, MOST, "GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", argv[3], argv[1], argv[2]);
    write_all(in, buffer, (size_t)length);

    size_t held = 0;
    char *body = NULL;
    while (body == NULL) {
        ssize_t got = read(in, buffer + held, full - held);
        if (got <= 0) die("read the head");
        held += (size_t)got;
        buffer[held] = 0;
        body = strstr(buffer, "\r\n\r\n");
    }
    if (strncmp(buffer, "HTTP/1.1 200 ", 13) != 0) {
        fprintf(stderr, "bare: %.60s\n", buffer);
        return 1;
    }
    body += 4;
    held -= (size_t)(body - buffer);
    memmove(buffer, body, held);

    for (;;) {
        ssize_t got = read(in, buffer + held, full - held);
        if (got < 0) die("read");
        held += (size_t)got;
        if (held == full || got == 0) {
            write_all(out, buffer, held);
            held = 0;
        }
        if (got == 0) break;
    }
    return close(out) == 0 ? 0 : 1;
}
