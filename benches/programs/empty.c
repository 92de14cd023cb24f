// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Attaches a BPF program that does nothing to a trace point, runs a command, and prints by the kernel's own count (kernel.bpf_stats_enabled) how
 * many nanoseconds a run of it took: what that count has of the kernel's work around a program. With --clock it reads the clock, once, as every
 * program must that takes times.
 *
 *     empty [--clock] TRACEPOINT COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

int main(int argc, char **argv)
{
	struct bpf_insn clock_and_nothing[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct bpf_prog_info info = { 0 };
	int clock = argc > 1 && !strcmp(argv[1], "--clock");
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insn_cnt = clock ? 3 : 2 };
	union bpf_attr attach, ask;
	int program, status = 0;

	argc -= clock;
	argv += clock;
	if (argc < 3)
		return 2;
	load.insns = (uintptr_t)(clock_and_nothing + !clock);
	load.license = (uintptr_t)"GPL";
	program = bpf(BPF_PROG_LOAD, &load);
	memset(&attach, 0, sizeof(attach));
	attach.raw_tracepoint.name = (uintptr_t)argv[1];
	attach.raw_tracepoint.prog_fd = program;
	if (program < 0 || bpf(BPF_RAW_TRACEPOINT_OPEN, &attach) < 0) {
		perror(argv[1]);
		return 1;
	}
	if (fork() == 0) {
		dup2(2, 1);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	wait(&status);
	memset(&ask, 0, sizeof(ask));
	ask.info.bpf_fd = program;
	ask.info.info_len = sizeof(info);
	ask.info.info = (uintptr_t)&info;
	if (status || bpf(BPF_OBJ_GET_INFO_BY_FD, &ask) || !info.run_cnt)
		return 1;
	printf("%.1f\n", (double)info.run_time_ns / info.run_cnt);
	return 0;
}
