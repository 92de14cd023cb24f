// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A control loop: sleeps until its next time, works, and notes how long after that time it was done. Prints the quantiles of these responses in
 * nanoseconds and the number of cycles.
 *
 *     loop PERIOD_US CYCLES WORK
 *
 * WORK is a number of additions, so that it is the same on a clock of instructions. SCHED_FIFO 80, on the first CPU that it may use.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

int main(int argc, char **argv)
{
	struct sched_param priority = { .sched_priority = 80 };
	volatile uint64_t sum = 0;
	int64_t period_ns, due, *response;
	long cycles, work, overruns = 0;
	cpu_set_t cpus, first;

	if (argc != 4) {
		fprintf(stderr, "usage: loop PERIOD_US CYCLES WORK\n");
		return 1;
	}
	period_ns = atol(argv[1]) * 1000;
	cycles = atol(argv[2]);
	work = atol(argv[3]);
	response = calloc((size_t)cycles, sizeof(*response));
	if (!response || cycles < 1)
		return 1;
	sched_getaffinity(0, sizeof(cpus), &cpus);
	CPU_ZERO(&first);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&first); cpu++)
		if (CPU_ISSET(cpu, &cpus))
			CPU_SET(cpu, &first);
	if (sched_setaffinity(0, sizeof(first), &first) || mlockall(MCL_CURRENT | MCL_FUTURE) ||
	    sched_setscheduler(0, SCHED_FIFO, &priority)) {
		perror("loop");
		return 1;
	}
	due = now_ns() + period_ns;
	for (long cycle = 0; cycle < cycles; cycle++) {
		struct timespec until = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		for (long i = 0; i < work; i++)
			sum += (uint64_t)i;
		response[cycle] = now_ns() - due;
		overruns += response[cycle] > period_ns;
		due += period_ns;
	}
	qsort(response, (size_t)cycles, sizeof(*response), by_size);
	printf("%ld %ld %ld %ld %ld %ld\n", (long)response[cycles / 2], (long)response[cycles * 99 / 100],
	       (long)response[cycles * 999 / 1000], (long)response[cycles - 1], overruns, cycles);
	return 0;
}
