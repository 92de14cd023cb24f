// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A chain over three processes, as programs of robots have it: `talker` publishes a message every 10 ms; `listener` takes each, asks `map` what
 * is there, and waits for the answer. Every 100th answer takes `map` 15 ms of its own code.
 *
 *     chain SECONDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void map(int socket)
{
	uint64_t asked;

	for (int count = 1; read(socket, &asked, sizeof(asked)) == sizeof(asked); count++) {
		int64_t work_ns = count % 100 ? 100 * 1000 : 15 * 1000 * 1000;
		int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + work_ns;

		while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
			;
		if (write(socket, &asked, sizeof(asked)) != sizeof(asked))
			break;
	}
}

static void listener(int topic, int map_socket)
{
	int epoll = epoll_create1(0);
	struct epoll_event wanted = { .events = EPOLLIN }, event;
	uint64_t message;

	epoll_ctl(epoll, EPOLL_CTL_ADD, topic, &wanted);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR)
			continue;
		if (read(topic, &message, sizeof(message)) != sizeof(message))
			return;
		if (write(map_socket, &message, sizeof(message)) != sizeof(message) ||
		    read(map_socket, &message, sizeof(message)) != sizeof(message))
			return;
	}
}

static void talker(int topic, int seconds)
{
	int64_t due = now_ns(CLOCK_MONOTONIC);

	for (uint64_t message = 0; message < (uint64_t)seconds * 100; message++) {
		struct timespec until;

		due += 10 * 1000 * 1000;
		until = (struct timespec){ .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		if (write(topic, &message, sizeof(message)) != sizeof(message))
			return;
	}
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10;
	int topic[2], service[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, topic) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, service)) {
		perror("chain: socketpair");
		return 1;
	}
	for (int part = 0; part < 2; part++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, part ? "listener" : "map");
		close(topic[0]);
		close(service[part]);
		if (part)
			listener(topic[1], service[0]);
		else
			map(service[1]);
		return 0;
	}
	prctl(PR_SET_NAME, "talker");
	close(topic[1]);
	close(service[0]);
	close(service[1]);
	talker(topic[0], seconds);
	close(topic[0]);
	while (wait(NULL) > 0)
		;
	return 0;
}
