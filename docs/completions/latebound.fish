# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_latebound_global_optspecs
    string join \n format= color= h/help V/version
end

function __fish_latebound_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_latebound_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_latebound_using_subcommand
    set -l cmd (__fish_latebound_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c latebound -n "__fish_latebound_needs_command" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_needs_command" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_needs_command" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "check" -d 'Measure this system, explain its worst wake-ups and write a report'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "measure" -d 'Measure how late periodic wake-ups are'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "explain" -d 'Explain the worst wake-ups of any thread, cause by cause'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "observe" -d 'Observe deferred work of the kernel: how often, how late, how long'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "serve" -d 'Observe for months as a service, with metrics for Prometheus and a spool of Runs'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "push" -d 'Move the Runs of a spool into a store'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "bound" -d 'Bound how late threads can get, on this system or from a saved trace'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "compare" -d 'Compare Runs: what differs, by how much, and how sure that is'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "import" -d 'Make a Run from another tool\'s results'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "defer" -d 'Request and time every mechanism by which the kernel defers work'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "doctor" -d 'Show which evidence this system can give, and which settings cause latency'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "report" -d 'Make the report of a Run again, or print its summary'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "tune" -d 'Show which kernel threads delay real-time tasks, and let them inherit priorities'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "lab" -d 'Run latebound, or any command, in a virtual machine with the kernel that you name'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "store" -d 'Keep the Runs of many machines in one store, for any program that reads Parquet'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "schema" -d 'Print the JSON Schema of run.json'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "generate" -d 'Write man pages or completions, all made from the definition of the options'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "__load" -d 'Run one built-in load in this process; used by the other verbs'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "late-commands" -d 'Run the commands of `--do` for the process that started this one'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l cpus -d 'The CPUs to measure, with one thread on each, such as 0-3,6 [default: all that this process may use]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l policy -d 'The scheduling policy of the measuring threads [default: fifo, or other if the kernel refuses fifo]' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l priority -d 'The real-time priority of the measuring threads, 1 to 99, for fifo and rr [default: 95]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l period -d 'The time from one wake-up to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l offset -d 'The time between the first wake-ups of one CPU and the next CPU, so that not all threads wake at the same moment' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l duration -d 'How long to measure' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l dma-latency -d 'Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; cyclictest holds 0 [default: idle states are left alone]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l timer-slack -d 'The timer slack of threads with --policy other: the kernel may fire their timers this much later [default: the slack of this process]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l block -d 'The length of the blocks of time whose maximum latencies are kept [default: 1 s, or the period if it is longer]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l max-latency -d 'End with exit status 2 if a latency was greater than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand check" -l worst -d 'How many of the worst wake-ups are explained' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l keep -d 'The activations that are written to the Run\'s `activations.parquet`, at most 1 048 576 [default: those that are explained]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l recorder-memory -d 'Memory for the last events of each CPU, in MiB; more memory explains longer waits under heavier loads' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l source -d 'Where the events come from: BPF programs in the kernel, or the kernel\'s own trace buffers, which are read and cost more [default: bpf; tracefs where BPF cannot be had]' -r -f -a "bpf\t''
tracefs\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l trace-buffer -d 'The trace buffer of each CPU, with --source tracefs (KiB, MiB): a larger one loses less [default: 4MiB, and all CPUs together at most 256MiB]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l no-observe -d 'Do not observe the kernel\'s mechanisms (softirqs, work items, …) during the measurement'
complete -c latebound -n "__fish_latebound_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand check" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l cpus -d 'The CPUs to measure, with one thread on each, such as 0-3,6 [default: all that this process may use]' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l policy -d 'The scheduling policy of the measuring threads [default: fifo, or other if the kernel refuses fifo]' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l priority -d 'The real-time priority of the measuring threads, 1 to 99, for fifo and rr [default: 95]' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l period -d 'The time from one wake-up to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l offset -d 'The time between the first wake-ups of one CPU and the next CPU, so that not all threads wake at the same moment' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l duration -d 'How long to measure' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l dma-latency -d 'Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; cyclictest holds 0 [default: idle states are left alone]' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l timer-slack -d 'The timer slack of threads with --policy other: the kernel may fire their timers this much later [default: the slack of this process]' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l block -d 'The length of the blocks of time whose maximum latencies are kept [default: 1 s, or the period if it is longer]' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l max-latency -d 'End with exit status 2 if a latency was greater than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l trace -d 'Explain the worst wake-ups of this saved trace (trace.dat, perf.data, ftrace text, or a Run of --do save), without root. Needs --comm, --tid or --rt' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l pid -d 'Observe every thread of this process, including threads that it starts later' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l tid -d 'Observe this thread; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l comm -d 'Observe every thread with this name (comm, at most 15 bytes)' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l cgroup -d 'Observe every thread of this control group (version 2) and of the groups below it, including threads that join later, by the group\'s path such as /system.slice/nginx.service' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l unit -d 'Observe every thread of this unit of systemd; without a kind the name is that of a service' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l container -d 'Observe every thread of this container of Docker, Podman, containerd or CRI-O, by its id or the beginning of its id' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l cycle -d 'The wait between two jobs of a thread: the name of a system call, "auto" to recognise it, or "off" to explain wake-ups alone [default: auto; with --rt: off]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l begin -d 'A place at which a job of a thread begins, instead of after a wait: uprobe:FILE:SYMBOL[+0xOFFSET], uretprobe:FILE:SYMBOL, usdt:FILE:PROVIDER:NAME or tracepoint:SYSTEM:EVENT. Without --end the next begin ends the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l end -d 'The place at which that job ends, in the same thread' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l period -d 'The distance between two releases of the jobs [default: recognised, where they are regular]. Releases without a job and jobs that take longer than this are counted' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l deadline -d 'The longest response that a job may have [default: the period, where one is known]. With this option a longer one ends with exit status 2' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l duration -d 'How long to observe [default: until Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l max-latency -d 'End with exit status 2 if a wake-up took longer than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l perfetto -d 'Also write the explanations to this file, as a Perfetto trace for https://ui.perfetto.dev. An existing file is replaced' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l source -d 'Where the events come from: BPF programs in the kernel, or the kernel\'s own trace buffers, which are read and cost more [default: bpf; tracefs where BPF cannot be had]' -r -f -a "bpf\t''
tracefs\t''"
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l trace-buffer -d 'The trace buffer of each CPU, with --source tracefs (KiB, MiB): a larger one loses less [default: 4MiB, and all CPUs together at most 256MiB]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l on-late -d 'Do something when a wake-up or job of a watched thread took longer than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l do -d 'What is done then; may be given more than once, and is done in this order: "save" the events before it, "run:COMMAND" with sh, "signal:NAME" to the late thread\'s process or "signal:NAME:PID", "marker" in the trace of the kernel, "stop" at last, as with Ctrl-C [default: save]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l rest -d 'For so long after a trigger another late wake-up or job is counted and does nothing' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l before -d 'How much time before the end of the late wake-up or job a save holds, as far as the recorder\'s memory reaches' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l saves -d 'How many saves are kept at most: the first ones. Later triggers are counted' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l command-limit -d 'A command of --do that runs longer is ended' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l worst -d 'How many of the worst wake-ups are explained' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l keep -d 'The activations that are written to the Run\'s `activations.parquet`, at most 1 048 576 [default: those that are explained]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l recorder-memory -d 'Memory for the last events of each CPU, in MiB; more memory explains longer waits under heavier loads' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l rt -d 'Observe every thread that runs with a real-time or deadline policy'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l mechanism -d 'Observe only these mechanisms [default: all]' -r -f -a "hard-irq\t''
vector\t''
softirq\t''
tasklet\t''
irq-work\t''
work\t''
threaded-irq\t''
kernel-thread\t''
hrtimer\t''
block\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l source -d 'Where the events come from: BPF programs in the kernel, or the kernel\'s own trace buffers, which are read and cost more [default: bpf; tracefs where BPF cannot be had]' -r -f -a "bpf\t''
tracefs\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l trace-buffer -d 'The trace buffer of each CPU, with --source tracefs (KiB, MiB): a larger one loses less [default: 4MiB, and all CPUs together at most 256MiB]' -r
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l duration -d 'How long to observe [default: until q or Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l interval -d 'The length of an interval, 1 s at least. Intervals end at whole multiples of it by the wall clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l spool -d 'The folder for the Runs; it is created if it does not exist' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l spool-limit -d 'The most bytes that the spool may take on disk (KiB, MiB, GiB); the oldest detail is removed first, then the oldest Runs' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l listen -d 'The address for the metrics: of this machine alone (127.0.0.1, [::1]), or, with --tls-cert, --tls-key and --token-file, any; with port 0 the kernel chooses a port' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l tls-cert -d 'Give the metrics over TLS, with the certificates in this PEM file: the own one first. A changed file is used for connections from 10 s later on' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l tls-key -d 'The private key of the certificate, in PEM. The file must belong to root or to this user, and be closed to others' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l token-file -d 'Answer only who brings the token in this file (Authorization: Bearer TOKEN). The same rules hold as for the key' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l otlp -d 'Also push the metrics to a receiver of OTLP over HTTP (http://127.0.0.1:4318, https://HOST:PORT/PATH; without a path to /v1/metrics). Histograms are exponential, of scale 5: a quantile is at most 2.15 % below and 2.99 % above the exact one; counts, sums and extremes are exact' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l otlp-every -d 'How often to push, 1 s at least [default: --interval]' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l otlp-ca -d 'Trust the certificates in this PEM file for --otlp [default: those of the system]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l otlp-headers -d 'Send the headers in this file to the receiver, one on a line (Authorization: Bearer TOKEN). The same rules hold as for the key' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l mechanism -d 'Observe only these mechanisms [default: all]' -r -f -a "hard-irq\t''
vector\t''
softirq\t''
tasklet\t''
irq-work\t''
work\t''
threaded-irq\t''
kernel-thread\t''
hrtimer\t''
block\t''"
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l duration -d 'How long to observe [default: until SIGTERM or Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l measure-cpus -d 'The CPUs to measure, such as 0-3,6 [default: all that this process may use]' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l measure-period -d 'The time from one wake-up to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l measure-priority -d 'The real-time priority of the measuring threads, 1 to 99 [default: 95]' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l explain-unit -d 'Explain the worst wake-ups of the threads of this unit of systemd, one unit for each time that it is given; without a kind the name is that of a service. A unit that does not run is watched from a few seconds after its start on' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l explain-cgroup -d 'Explain the worst wake-ups of the threads of this control group (version 2), such as /system.slice/nginx.service, and of the groups below it' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l explain-container -d 'Explain the worst wake-ups of the threads of this container of Docker, Podman, containerd or CRI-O, by its id or the beginning of its id. A container that does not run is watched from a few seconds after its start on' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l bound -d 'Give the bound of this Run beside what is measured, in the metrics and in each interval. It must be of this host and its kernel' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l worst -d 'How many of the worst wake-ups of an interval are explained: of each unit, group and container, and of the measuring threads' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l recorder-memory -d 'Memory for the last events of each CPU, in MiB, for each unit, group and container, and for the measuring threads' -r
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l measure -d 'Also measure how late periodic wake-ups are, with a real-time thread on each CPU'
complete -c latebound -n "__fish_latebound_using_subcommand serve" -l explain-rt -d 'Explain the worst wake-ups of all real-time threads'
complete -c latebound -n "__fish_latebound_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand serve" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand push" -l spool -d 'The folder that `latebound serve` writes to' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand push" -l store -d 'The store: a folder, s3://BUCKET/PREFIX, or ssh://USER@HOST/FOLDER for a folder of another machine, which needs latebound there. It is made if there is none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand push" -l host -d 'The name of the host, in place of the name in the Runs' -r
complete -c latebound -n "__fish_latebound_using_subcommand push" -l every -d 'Go on, and look again after so long; a store that is out of reach is tried again then [default: once]' -r
complete -c latebound -n "__fish_latebound_using_subcommand push" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand push" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand push" -l by-hour -d 'Write rows of whole hours in place of those of single Runs, as `store compact` would: here, before they are sent to a folder or a bucket; over ssh there. The Runs of an hour stay in the spool until it is over'
complete -c latebound -n "__fish_latebound_using_subcommand push" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand push" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l view -d 'The assumption about the arrival of interrupts (the view). The witness of this view is shown, and --max-latency is compared with its value' -r -f -a "none\t'No interrupts at all'
worst-single\t'The longest interrupt and the longest NMI, each once'
each-once\t'The longest interrupt of every source, once'
replay\t'The interrupts exactly as they came'
sliding-window\t'Every source in its own worst window'
sliding-window-owcet\t'As sliding-window, with each interrupt as long as the longest of its source'
sporadic\t'Every source at its shortest distance and its longest duration'"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l kallsyms -d 'The traced kernel\'s /proc/kallsyms, for traces without symbols (perf.data)' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l instance -d 'Read this instance of a trace.dat instead of the top buffer' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l observations -d 'Also write the observations to this file, as a document that `latebound bound` reads' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l max-latency -d 'End with exit status 2 if the view\'s latency is above this on any CPU, or does not converge' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l duration -d 'How long to observe this system [default: until q or Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l cpus -d 'The CPUs to observe, such as 0-3,6 [default: all that this process may use]' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l by -d 'The method of observation [default: the first of these that is available]' -r -f -a "bpf\t'The thread model in BPF programs'
module\t'The thread model in the kernel module latebound_bound, for kernels without BPF'
estimate\t'Scheduler and interrupt events alone, by BPF, which every kernel has: never a bound'
tracefs\t'The kernel\'s trace buffers, read by latebound: the thread model where the kernel has the events preemptirq, otherwise the events of `estimate`'"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l trace-buffer -d 'The trace buffer of each CPU, with --by tracefs (KiB, MiB): a larger one loses less [default: 32MiB for a bound, and all CPUs together at most 256MiB and an eighth of the memory; 4MiB for an estimate]' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l preempt-rt -d 'State that the traced kernel was PREEMPT_RT, if the trace does not show it. The result records that this option was given'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l no-measure -d 'Do not measure wake-ups at the same time (one thread on each CPU, fifo 95, every millisecond). Otherwise the bound is compared with them'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l against -d 'Runs of another side; give --against again for a third side' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l level -d 'The maximum share of comparisons of a system with itself in which any number is called better or worse' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l margin -d 'The largest relative difference that does not matter' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l least-effect -d 'A number is called better or worse only if its whole interval lies beyond this relative difference' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l fail-if -d 'End with exit status 2 if this condition is true; may be given more than once. \'worse\': any timed latency or throughput is called worse. \'timer.p99.9 worse by 10%\': this number is called worse, and its estimate is at least 10 % worse. \'operation.p99 not within 10%\': the Runs do not show that this number is less than 10 % worse. A number is MECHANISM.STATISTIC (timer, operation, softirq, …; p50, p99, p99.9, p99.99, max), throughput, or a name of the table (ipc messages.rate)' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l html -d 'Write an HTML page to this file (- for standard output, in place of the text): settings that differ, ratios with their intervals, distributions' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l junit -d 'Write JUnit XML to this file (- for standard output, in place of the text), with one test case for each number' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l markdown -d 'Write Markdown to this file (- for standard output, in place of the text), for the summary of a pipeline' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l seed -d 'The seed of the random numbers; the same Runs with the same seed give the same result' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l anyway -d 'Compare sides that are unlike (emulated and real machines; other loads, policies, periods or units). The output lists what is unlike'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l all -d 'Also list numbers of single CPUs and of deferred work (softirqs, work items, …) that have no verdict'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -a "preemption" -d 'Compare the kernel\'s preemption models: latency and throughput of the same work'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l kernels -d 'The kernels, with commas between them; the first is the baseline' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l models -d 'The models to compare with --here, with commas between them; the first is the baseline' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l load -d 'A workload; may be given more than once [default: ipc, tcp:size=300, udp:size=300 and sqlite]' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l runs -d 'How often each kernel runs each workload [default: 6, the minimum that gives a 95 % interval for one side alone]' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l duration -d 'The duration of each run' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l period -d 'The time from one wake-up of the measuring threads to the next. Choose a period of which the tick period is no multiple' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l jobs -d 'How many machines run at once. More than one needs --clock instructions, because such machines do not disturb each other' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s o -l output -d 'The folder for the Runs, the page, the picture and the table [default: latebound-preemption-TIME]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l resume -d 'Continue in this folder: make the missing Runs of its plan. A larger --runs adds Runs' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l cpus -d 'The number of CPUs [default: 2, or 1 with --clock instructions]' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l memory -d 'The memory of the machine' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l disk -d 'Add a virtio disk on a scratch file; it is /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l net -d 'The number of virtio network cards, connected in pairs: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l clock -d 'The clock of the machine. host: the host\'s time, so pauses of the host are in the figures. instructions: 8 ns for each instruction, so the host\'s load is not in the figures; the machine has one CPU. With instructions:1ns the machine is eight times as fast and takes eight times as long [default: instructions for bisect and compare preemption, host for the others]' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l timeout -d 'The maximum time that a machine may run, including its boot' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l module -d 'One of latebound\'s modules (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file. The module is built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l here -d 'Measure the running kernel on this machine. Measure each other model with --resume after its boot'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l emulate -d 'Emulate the machine in software; do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s o -l output -d 'The folder of the Run, with a number in its name if the file has several results [default: no Run is written]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand import" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand import" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand import" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "run" -d 'Measure the mechanisms, interleaved, idle and then under load'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "lost" -d 'Count the softirqs that are lost when interrupts come faster than their bottom half runs'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "timeline" -d 'Show interrupts, their bottom halves, ksoftirqd and the load over time, triggered on a late or lost run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "advise" -d 'List the mechanisms that met a latency budget in a Run of `defer run`, with margins'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l by -d 'The part that requests work and takes the times [default: module if it is loaded, else bpf]' -r -f -a "module\t'The kernel module latebound_defer: every mechanism, from every context'
bpf\t'User space and BPF programs, on a stock kernel: some mechanisms from task context, three of them also from softirqs'"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l mechanism -d 'The mechanisms, with commas between them [default: all that are available]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l context -d 'The contexts of the requests: task, softirq, hardirq [default: all]. By BPF all mechanisms are requested from task; direct, bpf_timer and bpf_wq also from softirq' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l cpu -d 'The CPU on which requests are made' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l to -d 'The CPUs on which the work runs, for mechanisms that can be sent to another CPU [default: the requesting CPU]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l count -d 'The number of triggers of each series' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l burst -d 'The number of requests in each trigger, directly one after the other. A mechanism that merges requests starts once for all of them' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l period -d 'The time between two triggers; up to a quarter is added at random' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l timer -d 'The time from setting an hrtimer to its expiry [default: 50 us]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l disk -d 'The place that direct_io reads: a folder, in which a file without a name is created, or a block device, which is only read [default: /var/tmp]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l execution -d 'How long each item keeps its CPU; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l busy -d 'Also measure work items and kthread_worker behind an item that keeps their pool busy for this time; at most 100 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l requester-policy -d 'The policy of the thread that requests from task context' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l requester-priority -d 'The real-time priority of this thread, only for fifo and rr [default: 20]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l runner-policy -d 'The policies of the threads that run kthread, kthread_worker, task_work and user, with commas between them. Without the module: of the threads of user, timerfd, perf_overflow and direct_io, and of the thread that membarrier calls. With several policies, these mechanisms have one series for each, in turns [default: other]' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l runner-priority -d 'The real-time priorities of these threads, with commas between them; fifo and rr have one series for each [default: 20]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l patience -d 'Give up on requests if nothing has started for this time' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l limit -d 'End each measurement, idle and under load, after this time. The output names the requests that are left' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l keep -d 'The activations that are written to the Run\'s `activations.parquet`, at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l open-loop -d 'Request also while an earlier request of the series waits. The new request is merged, or waits behind the earlier one'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l intervals -d 'Show below each quantile its 95 % confidence interval, which holds for every distribution'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l each-load -d 'Measure under each load alone, one after the other, instead of under all of them at once'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l axes -d 'Measure under several conditions: idle, without C-states, in bursts of 16, and under each of these loads alone: fair threads, a real-time thread below interrupt threads, a real-time thread above them, packets, memory, fdatasync'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l mechanism -d 'The bottom halves, with commas between them: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx [default: tasklet]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l trains -d 'The number of trains' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l cpu -d 'The CPU that gets the interrupts' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l irqs -d 'The number of interrupts in a train' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l period -d 'The time from one interrupt of a train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l execution -d 'How long the bottom half runs; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l pause -d 'The time from one train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l keep -d 'The activations that are written to the Run\'s `activations.parquet`, at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l duration -d 'How long to measure' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l trigger -d 'The event that selects the train to draw' -r -f -a "late\t'The worst run'
long\t'The run that took longest'
lost\t'The run into which the most raises were merged'"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l align -d 'The edge at which all triggers of an overlay lie; with a comma between two, an overlay of each' -r -f -a "top-half\t'The begin of the top half: shows how late the bottom half begins'
bottom-half\t'The begin of the bottom half: shows how long it takes'"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l window -d 'The longest time that an overlay shows before and after the trigger [default: from one train to the next]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l pictures -d 'Also write the pictures of report.html into this folder: 1.svg, 2.svg, …' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l mechanism -d 'The bottom half: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l cpu -d 'The CPU that gets the interrupts' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l irqs -d 'The number of interrupts in a train' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l period -d 'The time from one interrupt of a train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l execution -d 'How long the bottom half runs; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l pause -d 'The time from one train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l load -d 'A load to run during the measurement: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options such as ipc:rate=20000,groups=1. May be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s o -l output -d 'The folder of the Run [default: latebound-check-TIME.run for check; the other verbs write no Run]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l keep -d 'The activations that are written to the Run\'s `activations.parquet`, at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l fixed-work -d 'Let the bottom half do a fixed amount of work, which takes --execution if nothing interrupts it. Otherwise it ends when that time is over, and an interrupt in its middle does not make it longer'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l counter -d 'Let the bottom half request itself again until each interrupt had its run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l keep-arguments -d 'Keep the arguments of the command in the Run [default: only its name, because arguments may hold secrets]'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l budget -d 'The maximum latency of a start' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l context -d 'The contexts of the requests: task, softirq, hardirq [default: any]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l may-sleep -d 'List only mechanisms whose work may sleep (wait for memory, a lock, a device)'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l root -d 'Read /proc, /sys and /boot below this folder, for example a copy from another system' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l all -d 'Also list settings that are good'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand report" -l html -d 'Write the page to this file (- for standard output) instead of printing the summary' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand report" -l pictures -d 'Write the page\'s pictures as SVG files to this folder instead of printing the summary; the folder is created if it does not exist' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand report" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand report" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand report" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "map" -d 'Show which tasks wait for which kernel threads, and the priorities that the policy gives'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "run" -d 'Let kernel threads inherit the priority of the tasks that wait for them'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "undo" -d 'Undo the changes that a dead tuner left'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "prove" -d 'Run a trial: the same workload under each policy in turns, with the response times compared'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "show" -d 'Print or draw the result of `tune prove` again'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "tasks" -d 'Run real-time tasks that write, read and compute: a workload for a trial'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "record" -d 'Record the work of real-time tasks and kernel threads as a workload for `tune fit`'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "fit" -d 'Simulate a workload under each policy, and search the best weights for it'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "config" -d 'Print the default configuration, with the meaning of each value'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "schema" -d 'Print the JSON Schema of the configuration'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l duration -d 'How long to observe [default: until Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l html -d 'Write the map as an HTML page as well; an existing file is replaced' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l duration -d 'How long to run [default: until Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l policy -d 'The policy [default: the configuration\'s]' -r -f -a "off\t'Nothing is changed'
static\t'The priority that the configuration gives each class'
pip\t'The maximum priority of the waiting tasks: equation (1)'
weighted-average\t'The weighted mean of the priorities of the waiting tasks: equation (2)'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l by -d 'What raises threads when a wait begins [default: module if it is loaded, else daemon]' -r -f -a "module\t'The kernel module latebound_tune for disks, work items and page reclaim; this process for all other waits'
daemon\t'This process alone'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l journal -d 'The folder of the undo journal' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l metrics -d 'The file of metrics, written every 5 s for node_exporter\'s textfile collector; its name ends in .prom [default: the configuration\'s]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l dry-run -d 'Report what would be changed, and change nothing'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l journal -d 'The folder of the undo journals' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l policy -d 'The policies, with the base first; static is added if the configuration gives a class a priority' -r -f -a "off\t'Nothing is changed'
static\t'The priority that the configuration gives each class'
pip\t'The maximum priority of the waiting tasks: equation (1)'
weighted-average\t'The weighted mean of the priorities of the waiting tasks: equation (2)'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l rounds -d 'The number of turns of each policy' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l duration -d 'The measured time of each turn' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l settle -d 'The time before the measured time in each turn' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s o -l output -d 'A new folder for the Run of each turn, prove.json and pictures; an existing folder is refused' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l journal -d 'The folder of the undo journal' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l pictures -d 'Write pictures (response over time, cumulative distribution, memory) as SVG to this folder instead of printing; the folder is created if it does not exist' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l folder -d 'The folder of the tasks\' files. Missing files are created, and all files stay' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l duration -d 'How long to run' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l duration -d 'How long to record; Ctrl-C ends it earlier and keeps what was recorded' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s o -l output -d 'The file of the workload' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l force -d 'Replace an existing file'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l loss -d 'The maximum increase of any task\'s worst response over the policy off, in per cent' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l simulations -d 'The maximum number of simulations' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "run" -d 'Run one job on one kernel'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "matrix" -d 'Run one job on many kernels, several times each'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "bisect" -d 'Find the first bad kernel of a list, or the first bad commit of a source tree'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "kernels" -d 'List the kernels in the cache, the kernels that are available, and the evidence that each gives'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "build" -d 'Download or build kernels now, so that later runs start at once'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l kernel -d 'The kernel' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l arch -d 'The architecture of the machine: amd64 or arm64 [default: the host\'s]. Another than the host\'s is emulated. Its kernels are Debian\'s (debian:) or built on this host (traced:, checked:)' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l binary -d 'The static latebound for a machine of another architecture [default: what `make static ARCH=aarch64` builds]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s o -l output -d 'The folder of the Run [default: latebound-lab-TIME.run]. The console log is beside it' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l cpus -d 'The number of CPUs [default: 2, or 1 with --clock instructions]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l memory -d 'The memory of the machine' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l disk -d 'Add a virtio disk on a scratch file; it is /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l net -d 'The number of virtio network cards, connected in pairs: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l clock -d 'The clock of the machine. host: the host\'s time, so pauses of the host are in the figures. instructions: 8 ns for each instruction, so the host\'s load is not in the figures; the machine has one CPU. With instructions:1ns the machine is eight times as fast and takes eight times as long [default: instructions for bisect and compare preemption, host for the others]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l timeout -d 'The maximum time that a machine may run, including its boot' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l module -d 'One of latebound\'s modules (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file. The module is built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l force -d 'Replace an existing Run'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l emulate -d 'Emulate the machine in software; do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l kernels -d 'The kernels, with commas between them' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l runs -d 'How often each kernel runs the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l jobs -d 'How many machines run at once. More than one needs --clock instructions, because such machines do not disturb each other' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s o -l output -d 'The folder of the matrix, with one Run of each job [default: latebound-matrix-TIME]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l cpus -d 'The number of CPUs [default: 2, or 1 with --clock instructions]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l memory -d 'The memory of the machine' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l disk -d 'Add a virtio disk on a scratch file; it is /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l net -d 'The number of virtio network cards, connected in pairs: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l clock -d 'The clock of the machine. host: the host\'s time, so pauses of the host are in the figures. instructions: 8 ns for each instruction, so the host\'s load is not in the figures; the machine has one CPU. With instructions:1ns the machine is eight times as fast and takes eight times as long [default: instructions for bisect and compare preemption, host for the others]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l timeout -d 'The maximum time that a machine may run, including its boot' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l module -d 'One of latebound\'s modules (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file. The module is built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l emulate -d 'Emulate the machine in software; do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l good -d 'The good kernel, or with --tree the good commit' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l bad -d 'The bad kernel, or with --tree the bad commit' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l between -d 'Kernels between the two, in order, with commas between them' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l tree -d 'The git repository of a kernel; its commits are built and run' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l metric -d 'The number to compare: MECHANISM.max, MECHANISM.mean or a quantile such as MECHANISM.p99.9. Examples: timer.max, softirq.p99' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l over -d 'A value above this is bad' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l ends -d 'How often the good and the bad end run' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l repeats -d 'The maximum number of runs of a kernel between the ends' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s o -l output -d 'The folder for the Runs [default: latebound-bisect-TIME]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l cpus -d 'The number of CPUs [default: 2, or 1 with --clock instructions]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l memory -d 'The memory of the machine' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l disk -d 'Add a virtio disk on a scratch file; it is /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l net -d 'The number of virtio network cards, connected in pairs: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l clock -d 'The clock of the machine. host: the host\'s time, so pauses of the host are in the figures. instructions: 8 ns for each instruction, so the host\'s load is not in the figures; the machine has one CPU. With instructions:1ns the machine is eight times as fast and takes eight times as long [default: instructions for bisect and compare preemption, host for the others]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l timeout -d 'The maximum time that a machine may run, including its boot' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l module -d 'One of latebound\'s modules (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file. The module is built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l rt -d 'Build the commits with PREEMPT_RT'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l emulate -d 'Emulate the machine in software; do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -l arch -d 'The architecture of the kernels: amd64 or arm64 [default: the host\'s]' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "add" -d 'Add Runs to a store'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "list" -d 'List the days and hosts of a store, with their Runs, rows and bytes'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "files" -d 'Print the paths of the Parquet files that count, for other programs'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "verify" -d 'Read every file that counts and compare it with what was written'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "compact" -d 'Roll up Runs to hours or days, and remove files that nobody needs'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "prune" -d 'Remove old days from a store'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "migrate" -d 'Write files of earlier versions again, with the columns of today'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "simulate" -d 'Add the Runs of hosts that do not exist to a store, to try questions and sizes before there are machines'
complete -c latebound -n "__fish_latebound_using_subcommand store; and not __fish_seen_subcommand_from add list files verify compact prune migrate simulate export" -f -a "export" -d 'Write all that a store holds of a host as one Run'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -l host -d 'The name of the host, in place of the name in the Run' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -l by-hour -d 'Write rows of whole hours in place of those of single Runs, as `store compact` would'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from add" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l from -d 'Only this day and later ones, such as 2026-11-27 (UTC)' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l to -d 'Only this day and earlier ones' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l host -d 'Only this host; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l table -d 'Only this table: series, buckets, worst, spans, settings, machines, losses, bounds, blocks, intervals or results; may be given more than once [default: all]' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l from -d 'Only this day and later ones, such as 2026-11-27 (UTC)' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l to -d 'Only this day and earlier ones' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l host -d 'Only this host; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from files" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from verify" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from verify" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from verify" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -l to -d 'What rows are added up to' -r -f -a "hour\t''
day\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from compact" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -l before -d 'Remove the days before this one, such as 2026-11-27 (UTC)' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from prune" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from migrate" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from migrate" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from migrate" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from migrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from migrate" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l hosts -d 'How many hosts' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l cpus -d 'How many CPUs each host has' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l day -d 'The day on which they begin, such as 2026-11-26 (UTC)' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l duration -d 'For how long each host measures' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l interval -d 'How long a Run is: whole minutes' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l wakeups -d 'How many wake-ups each CPU has in a second' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l seed -d 'What the chance begins with' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -l by-hour -d 'Write rows of whole hours in place of those of single Runs, as `store compact` would'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from simulate" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l store -d 'The store: a folder, or s3://BUCKET/PREFIX' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l host -d 'The host' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l from -d 'Only this day and later ones, such as 2026-11-27 (UTC)' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l to -d 'Only this day and earlier ones' -r
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -s o -l output -d 'Write the Run to this folder, with its page report.html' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -l force -d 'Replace an earlier Run at --output'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand store; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand schema" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand schema" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand generate" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand generate" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand generate" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand __load" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand __load" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand __load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand __load" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand late-commands" -l format -d 'The format of the results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand late-commands" -l color -d 'When to use colours: auto (on a terminal, if NO_COLOR is not set), always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand late-commands" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand late-commands" -s V -l version -d 'Print version'
