// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two processes on one CPU wake each other in turn: each round is two wake-ups and two switches. Prints nanoseconds per wake-up and switch, and
 * per getppid() of as many calls, a system call that does next to nothing.
 *
 *     switches ROUNDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void turns(int from, int to, long rounds)
{
	char byte = 0;

	for (long round = 0; round < rounds; round++)
		if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			_exit(1);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 0;
	int there[2], back[2], status = 0;
	int64_t began, switched, called;
	cpu_set_t cpu;
	char byte;

	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (rounds < 1 || sched_setaffinity(0, sizeof(cpu), &cpu) || pipe(there) || pipe(back))
		return 2;
	if (fork() == 0) {
		if (read(there[0], &byte, 1) != 1)
			return 1;
		turns(there[0], back[1], rounds);
		return write(back[1], &byte, 1) != 1;
	}
	/* The first turn brings the other process to where it waits. */
	turns(back[0], there[1], 1);
	began = now_ns();
	turns(back[0], there[1], rounds);
	switched = now_ns() - began;
	wait(&status);
	began = now_ns();
	for (long call = 0; call < rounds; call++)
		syscall(SYS_getppid);
	called = now_ns() - began;
	printf("%.1f %.1f\n", (double)switched / (2 * rounds), (double)called / rounds);
	return status != 0;
}
