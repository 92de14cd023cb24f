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

complete -c latebound -n "__fish_latebound_needs_command" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_needs_command" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_needs_command" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "check" -d 'Measure this system, explain its worst wake-ups and write a report'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "measure" -d 'Measure how late periodic wake-ups are'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "explain" -d 'Explain the worst wake-ups of any thread, cause by cause'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "observe" -d 'Watch everything that the kernel puts off: how often, how late, how long'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "bound" -d 'Bound how late threads can get, on this system or from a saved trace'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "compare" -d 'Say what differs between Runs, by how much, and how sure that is'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "import" -d 'Make a Run of another tool\'s results'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "defer" -d 'Request and time every way that the kernel has to put work off'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "doctor" -d 'Say what this system can show, and which settings make it late'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "report" -d 'Make the report of a Run again, or print its summary'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "tune" -d 'Show which kernel threads hold up real-time tasks, and let their priority follow'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "lab" -d 'Run latebound, or any command, in a virtual machine with the kernel you name'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "schema" -d 'Print the JSON Schema of run.json'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "generate" -d 'Write man pages or completions, all made from the definition of the options'
complete -c latebound -n "__fish_latebound_needs_command" -f -a "__load" -d 'Run one built-in load in this process; used by the other verbs'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l cpus -d 'CPUs with a measuring thread each, as 0-3,6; all that this process may use where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l policy -d 'The scheduling policy of the measuring threads; fifo where not given, or other where the kernel refuses fifo' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l priority -d 'Their real-time priority, 1 to 99, of fifo and rr; 95 where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l period -d 'From one wake-up to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l offset -d 'Between the first wake-ups of one CPU and the next, so that they do not all fall together' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l duration -d 'For how long to measure' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l dma-latency -d 'Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; the system\'s own behaviour is measured where not given. (cyclictest holds 0.)' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l timer-slack -d 'Allow the kernel to fire the timers of --policy other so much later; the process\'s own value where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l block -d 'Keep the maximum latency of every stretch of this length; of 1 s, or of a longer period, where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l max-latency -d 'End with exit status 2 where a latency was greater than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand check" -l worst -d 'How many of the worst wake-ups are explained' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l keep -d 'Which activations the Run\'s `activations.parquet` has, of at most 1 048 576 [default: those that are explained]' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l recorder-memory -d 'Memory for each CPU\'s last events, in MiB; more explains longer waits under heavier loads' -r
complete -c latebound -n "__fish_latebound_using_subcommand check" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand check" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand check" -l no-observe -d 'Do not watch the kernel\'s mechanisms (softirqs, work items, …) beside'
complete -c latebound -n "__fish_latebound_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand check" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l cpus -d 'CPUs with a measuring thread each, as 0-3,6; all that this process may use where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l policy -d 'The scheduling policy of the measuring threads; fifo where not given, or other where the kernel refuses fifo' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l priority -d 'Their real-time priority, 1 to 99, of fifo and rr; 95 where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l period -d 'From one wake-up to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l offset -d 'Between the first wake-ups of one CPU and the next, so that they do not all fall together' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l duration -d 'For how long to measure' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l dma-latency -d 'Hold /dev/cpu_dma_latency at this value, which keeps CPUs out of deeper idle states; the system\'s own behaviour is measured where not given. (cyclictest holds 0.)' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l timer-slack -d 'Allow the kernel to fire the timers of --policy other so much later; the process\'s own value where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l block -d 'Keep the maximum latency of every stretch of this length; of 1 s, or of a longer period, where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l max-latency -d 'End with exit status 2 where a latency was greater than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand measure" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l trace -d 'Explain the worst wake-ups of this saved trace (trace.dat, perf.data or ftrace text), without root; with --comm, --tid or --rt' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l pid -d 'Watch every thread of this process, those that it starts later included' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l tid -d 'Watch this thread; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l comm -d 'Watch every thread with this name (comm, at most 15 bytes)' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l duration -d 'For how long to watch; until Ctrl-C where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l max-latency -d 'End with exit status 2 where a wake-up took longer than this' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l worst -d 'How many of the worst wake-ups are explained' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l keep -d 'Which activations the Run\'s `activations.parquet` has, of at most 1 048 576 [default: those that are explained]' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l recorder-memory -d 'Memory for each CPU\'s last events, in MiB; more explains longer waits under heavier loads' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l rt -d 'Watch every thread that runs with a real-time or deadline policy'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand explain" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l mechanism -d 'Watch only these mechanisms' -r -f -a "hard-irq\t''
vector\t''
softirq\t''
tasklet\t''
irq-work\t''
work\t''
threaded-irq\t''
kernel-thread\t''
hrtimer\t''
block\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l duration -d 'For how long; until q or Ctrl-C where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand observe" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l view -d 'How the interrupts are thought to arrive: the view whose witness is shown and that --max-latency is held against' -r -f -a "none\t'No interrupts at all'
worst-single\t'The longest interrupt and the longest NMI, once'
each-once\t'The longest of every source, once'
replay\t'The interrupts as they came'
sliding-window\t'Every source in its own worst window'
sliding-window-owcet\t'The same, each interrupt as long as the source\'s longest'
sporadic\t'Every source at its shortest distance and its longest duration'"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l kallsyms -d 'The traced kernel\'s /proc/kallsyms, for traces without symbols (perf.data)' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l instance -d 'Read this instance of a trace.dat instead of the top buffer' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l observations -d 'Also write what was observed to this file, as a document that `latebound bound` reads' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l max-latency -d 'End with exit status 2 where the view\'s latency is above this on any CPU, or does not converge' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l duration -d 'For how long to follow this system; until q or Ctrl-C where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l cpus -d 'CPUs to follow, as 0-3,6; all that this process may use where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l by -d 'What follows them; the first of these that can be had where not given' -r -f -a "bpf\t'The thread model in BPF programs'
module\t'The thread model in the kernel module latebound_bound, for kernels without BPF'
estimate\t'Scheduler and interrupt events alone, which every kernel has: never a bound'"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l preempt-rt -d 'Say that the traced kernel was PREEMPT_RT where the trace cannot; it is kept on record that you said so'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l no-measure -d 'Do not measure wake-ups beside (one thread a CPU, fifo 95, every millisecond), with which the bound is compared'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand bound" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l against -d 'Runs of another side; give --against again for a third' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l level -d 'How often a comparison of a system with itself may call any difference at all' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l margin -d 'A relative difference that does not matter' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l least-effect -d 'A difference is called where its whole interval lies beyond this relative difference' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l fail-if -d 'End with exit status 2 where this comes true; may be given more than once. \'worse\': any latency that was timed, or throughput, is called worse. \'timer.p99.9 worse by 10%\': that number is, and by so much by estimate. \'operation.p99 not within 10%\': it is not shown to be less than so much worse. Numbers are MECHANISM.STATISTIC (timer, operation, softirq, …; p50, p99, p99.9, p99.99, max), throughput, or a name of the table (ipc messages.rate)' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l html -d 'Write a page (HTML) to this file (- for standard output, in place of the text): what differs, the differences with their intervals, the distributions' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l junit -d 'Write JUnit XML to this file (- for standard output, in place of the text): a case for each number' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l markdown -d 'Write Markdown to this file (- for standard output, in place of the text), for the summary of a pipeline' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l seed -d 'The seed of the random numbers; the same Runs with the same seed give the same answer' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l anyway -d 'Compare sides that are unlike (emulated with real, other loads, policies, periods or units): what is unlike is said'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -l all -d 'Also list single CPUs and what the kernel put off (softirqs, work items, …) where nothing can be said about them'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and not __fish_seen_subcommand_from preemption" -a "preemption" -d 'Hold the kernel\'s preemption models against each other: latency and throughput of the same work'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l kernels -d 'The kernels, with commas between them; the first is the baseline' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l models -d 'The models that --here is to have in the end, with commas between them; the first is the baseline' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l load -d 'A workload; may be given more than once. ipc, tcp:size=300, udp:size=300 and sqlite where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l runs -d 'How often each kernel runs each workload; 6 where not given, the fewest with a 95 % interval of their own' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l duration -d 'For how long each time' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l period -d 'From one wake-up of the probe threads to the next; no multiple of the tick' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l jobs -d 'How many machines run at once; more than one only by instructions, where they cannot disturb each other' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s o -l output -d 'The folder for the Runs, the page, the picture and the table; latebound-preemption-TIME where not given' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l resume -d 'Go on in this folder with what it lacks, by the plan that is in it. Give --runs for more of them' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l cpus -d 'How many CPUs; 2 where not given, 1 by instructions' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l memory -d 'Memory' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l disk -d 'A virtio disk on a scratch file: /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l net -d 'Virtio network cards, joined two by two: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l clock -d 'Which time the machine sees: host, what holds up the host shows in the guest; or instructions, eight nanoseconds for each of them: the host\'s load leaves no mark, and the machine has one CPU. instructions:1ns is a machine eight times as fast that takes eight times as long. Where not given, bisect and compare preemption count instructions, the others take the host\'s' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l timeout -d 'How long a machine may run in all, booting included' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l module -d 'A module of latebound\'s own (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file: built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l here -d 'Measure on this machine, the kernel that runs now; the other models after their boots, with --resume'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -l emulate -d 'Do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand compare; and __fish_seen_subcommand_from preemption" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s o -l output -d 'The folder of the Run, numbered where the file has several results; where not given, nothing is written' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand import" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand import" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand import" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand import" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "run" -d 'Measure the mechanisms, interleaved, idle and then under load'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "lost" -d 'Count the softirqs that are lost when interrupts come faster than their bottom half runs'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "timeline" -d 'Show interrupts, their bottom halves, ksoftirqd and the load over time, triggered on a late or lost run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and not __fish_seen_subcommand_from run lost timeline advise" -f -a "advise" -d 'Name the ways that met a budget, with margins, by what `defer run` measured'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l by -d 'What requests and stamps: the kernel module, or user space and BPF programs; the module where it is loaded' -r -f -a "module\t'The kernel module latebound_defer: every mechanism, from every context'
bpf\t'User space and BPF programs, on a stock kernel: some mechanisms, from task context, three from softirqs too'"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l mechanism -d 'The mechanisms, with commas between them; all that can be had where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l context -d 'Where requests come from: task, softirq, hardirq; all where not given. By BPF from task, and direct, bpf_timer and bpf_wq from softirq' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l cpu -d 'The CPU that requests' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l to -d 'CPUs to run on, where the mechanism can be sent to another; the requesting one where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l count -d 'Triggers of each series' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l burst -d 'Requests in each trigger, right one after the other; mechanisms that merge start once for all of them' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l period -d 'Between two triggers, to which up to a quarter is added at random' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l timer -d 'How far ahead hrtimers are set; 50 us where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l disk -d 'What direct_io reads: a file that is made in this folder and has no name, or a block device, which is only read; /var/tmp where not given' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l execution -d 'How long each item keeps its CPU; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l busy -d 'Also measure work items and kthread_worker behind an item that keeps their pool busy for so long; at most 100 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l requester-policy -d 'The policy of the thread that requests from task context' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l requester-priority -d 'Its real-time priority; only for fifo and rr; 20 where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l runner-policy -d 'The policy of kthread, kthread_worker, task_work and user; without the module of user, timerfd, perf_overflow and direct_io, and of the thread that membarrier calls' -r -f -a "fifo\t''
rr\t''
deadline\t''
other\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l runner-priority -d 'Their real-time priority; only for fifo and rr; 20 where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l patience -d 'Give up on requests when nothing has started for so long' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l limit -d 'End each measurement, idle and under load, after so long; what was not requested by then is named' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l keep -d 'Which activations the Run\'s `activations.parquet` has, of at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l open-loop -d 'Request also while an earlier request of the series waits: it is merged, or waits behind'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l intervals -d 'Show below each quantile the interval in which it lies with 95 % confidence, whatever the distribution'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l each-load -d 'Measure under each load alone, one after the other, instead of under all of them at once'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l axes -d 'Measure idle, without C-states, in bursts of 16, and alone under each of: fair threads, a real-time thread below and one above interrupt threads, packets, memory, fdatasync'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l mechanism -d 'The bottom halves, with commas between them: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx; tasklet where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l trains -d 'How many trains' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l cpu -d 'The CPU that the interrupts come to' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l irqs -d 'Interrupts in a train' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l period -d 'From one interrupt of a train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l execution -d 'How long the bottom half runs; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l pause -d 'From one train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l keep -d 'Which activations the Run\'s `activations.parquet` has, of at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from lost" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l duration -d 'How long' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l trigger -d 'What to trigger on' -r -f -a "late\t'The worst run'
lost\t'The run into which most raises were merged'"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l mechanism -d 'The bottom half: tasklet, tasklet_hi, softirq_irq_poll, softirq_net_rx' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l cpu -d 'The CPU that the interrupts come to' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l irqs -d 'Interrupts in a train' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l period -d 'From one interrupt of a train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l execution -d 'How long the bottom half runs; at most 1 ms' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l pause -d 'From one train to the next' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l load -d 'A load to run beside: cpu, rt-hog, ipc, tcp, udp, sqlite, pgbench, timer, fork, io or memory, with options as ipc:rate=20000,groups=1. May be given more than once. Each ends by its own clock' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s o -l output -d 'The folder of the Run; check writes latebound-check-TIME.run where not given, the other verbs write none' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l keep -d 'Which activations the Run\'s `activations.parquet` has, of at most 1 048 576 [default: the worst of each series]' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l counter -d 'Let the bottom half request itself again until each interrupt had its run'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l keep-arguments -d 'Keep the command\'s arguments in the Run; its name alone is kept where not given, because arguments may hold secrets'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from timeline" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l budget -d 'How late a start may be' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l context -d 'From where it is requested: task, softirq, hardirq; any where not given' -r
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -l may-sleep -d 'Only ways whose work may sleep (wait for memory, a lock, a device)'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand defer; and __fish_seen_subcommand_from advise" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l root -d 'Read /proc, /sys and /boot below this folder: a copy of another system\'s' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -l all -d 'Also list what is as it should be'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand report" -l html -d 'Write the page to this file (- for standard output) instead of printing the summary' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand report" -l pictures -d 'Write the page\'s pictures as SVG files to this folder instead of printing the summary; made where it is not there' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand report" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand report" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand report" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "map" -d 'Watch who waits for which kernel thread, and show what the policy would make of it'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "run" -d 'Let the priority of kernel threads follow from the tasks that wait for them'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "undo" -d 'Undo the changes that a dead tuner left'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "prove" -d 'Run a trial: the same workload under each policy in turns, with the response times compared'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "show" -d 'Print or draw the result of `tune prove` again'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "tasks" -d 'Run real-time tasks that write, read and compute: a workload for a trial'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "record" -d 'Record what real-time tasks and kernel threads do, as a workload for `tune fit`'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "fit" -d 'Simulate a workload under each policy, and search the best weights for it'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "config" -d 'Print the default configuration, with what each value means'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and not __fish_seen_subcommand_from map run undo prove show tasks record fit config schema" -f -a "schema" -d 'Print the JSON Schema of the configuration'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l duration -d 'How long to watch [default: until Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l html -d 'Write the map as an HTML page as well; an existing file is replaced' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from map" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l duration -d 'How long to run [default: until Ctrl-C]' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l policy -d 'The policy [default: the configuration\'s]' -r -f -a "off\t'Nothing is changed'
static\t'What the configuration gives each class'
pip\t'The highest that waits: equation (1)'
weighted-average\t'The weighted mean of those that wait: equation (2)'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l by -d 'What raises threads when a wait begins [default: module if it is loaded, else daemon]' -r -f -a "module\t'The kernel module latebound_tune, for disks, work items and page reclaim; this process for all else'
daemon\t'This process alone'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l journal -d 'The folder of the undo journal' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l metrics -d 'The file of metrics, written every five seconds for node_exporter\'s textfile collector; its name ends in .prom [default: the configuration\'s]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -l dry-run -d 'Report what would be changed, and change nothing'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l journal -d 'The folder of the undo journals' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from undo" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l policy -d 'The policies, the base first; static is added where the configuration gives a class a priority' -r -f -a "off\t'Nothing is changed'
static\t'What the configuration gives each class'
pip\t'The highest that waits: equation (1)'
weighted-average\t'The weighted mean of those that wait: equation (2)'"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l rounds -d 'Turns of each policy' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l duration -d 'The measured time of each turn' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l settle -d 'The time before that in each turn, which is not measured' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l config -d 'The configuration file [default: what `latebound tune config` prints]' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s o -l output -d 'A new folder for the Run of each turn, prove.json and pictures; one that exists is refused' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l journal -d 'The folder of the undo journal' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from prove" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l pictures -d 'Write response over time, cumulative distribution and memory as SVG to this folder instead; it is made where it does not exist' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l folder -d 'The folder of the tasks\' files, which are made where they do not exist, and stay' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l duration -d 'How long to run' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from tasks" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l duration -d 'How long to record; Ctrl-C ends it earlier and keeps what was recorded' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s o -l output -d 'The file of the workload' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -l force -d 'Replace an existing file'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from record" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l loss -d 'How much longer than with the policy off any task\'s worst response may get, in per cent' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l simulations -d 'The most simulations' -r
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from fit" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from config" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand tune; and __fish_seen_subcommand_from schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "run" -d 'Run one job on one kernel'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "matrix" -d 'Run one job on many kernels, several times each'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "bisect" -d 'Find the first bad one of many kernels, or of the commits of a source tree'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "kernels" -d 'List which kernels are here, which can be had, and what each can show'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and not __fish_seen_subcommand_from run matrix bisect kernels build" -f -a "build" -d 'Download or build kernels now, so that later runs start at once'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l kernel -d 'The kernel' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s o -l output -d 'The folder of the Run; latebound-lab-TIME.run where not given. The console log lies beside it' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l cpus -d 'How many CPUs; 2 where not given, 1 by instructions' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l memory -d 'Memory' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l disk -d 'A virtio disk on a scratch file: /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l net -d 'Virtio network cards, joined two by two: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l clock -d 'Which time the machine sees: host, what holds up the host shows in the guest; or instructions, eight nanoseconds for each of them: the host\'s load leaves no mark, and the machine has one CPU. instructions:1ns is a machine eight times as fast that takes eight times as long. Where not given, bisect and compare preemption count instructions, the others take the host\'s' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l timeout -d 'How long a machine may run in all, booting included' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l module -d 'A module of latebound\'s own (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file: built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l force -d 'Replace a Run that is there already'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -l emulate -d 'Do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l kernels -d 'The kernels, with commas between them' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l runs -d 'How often each kernel is run' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l jobs -d 'How many machines run at once; more than one only by instructions, where they cannot disturb each other' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s o -l output -d 'The folder of the matrix, with a Run for each run; latebound-matrix-TIME where not given' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l cpus -d 'How many CPUs; 2 where not given, 1 by instructions' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l memory -d 'Memory' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l disk -d 'A virtio disk on a scratch file: /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l net -d 'Virtio network cards, joined two by two: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l clock -d 'Which time the machine sees: host, what holds up the host shows in the guest; or instructions, eight nanoseconds for each of them: the host\'s load leaves no mark, and the machine has one CPU. instructions:1ns is a machine eight times as fast that takes eight times as long. Where not given, bisect and compare preemption count instructions, the others take the host\'s' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l timeout -d 'How long a machine may run in all, booting included' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l module -d 'A module of latebound\'s own (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file: built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -l emulate -d 'Do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from matrix" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l good -d 'The good kernel, or with --tree the good commit' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l bad -d 'The bad kernel, or with --tree the bad commit' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l between -d 'Kernels between the two, in order, with commas between them' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l tree -d 'A kernel\'s git repository: its commits are built and run' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l metric -d 'What is compared: MECHANISM.max, MECHANISM.mean or MECHANISM.p99.9, such as timer.max or softirq.p99' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l over -d 'A value above this is bad' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l ends -d 'How often the good and the bad end are run' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l repeats -d 'How often a kernel in between is run at most' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s o -l output -d 'The folder for the Runs; latebound-bisect-TIME where not given' -r -F
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l cpus -d 'How many CPUs; 2 where not given, 1 by instructions' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l memory -d 'Memory' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l append -d 'An option for the kernel\'s command line; may be given more than once' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l disk -d 'A virtio disk on a scratch file: /dev/vda in the guest' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l net -d 'Virtio network cards, joined two by two: eth0 with eth1' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l clock -d 'Which time the machine sees: host, what holds up the host shows in the guest; or instructions, eight nanoseconds for each of them: the host\'s load leaves no mark, and the machine has one CPU. instructions:1ns is a machine eight times as fast that takes eight times as long. Where not given, bisect and compare preemption count instructions, the others take the host\'s' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l timeout -d 'How long a machine may run in all, booting included' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l module -d 'A module of latebound\'s own (latebound_bound, latebound_defer, latebound_tune), or a folder with a Kbuild file: built for the kernel and loaded before the job' -r
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l rt -d 'Build the commits with PREEMPT_RT'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -l emulate -d 'Do not try KVM'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from bisect" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from kernels" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand lab; and __fish_seen_subcommand_from build" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand schema" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand schema" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand schema" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand schema" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand generate" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand generate" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand generate" -s V -l version -d 'Print version'
complete -c latebound -n "__fish_latebound_using_subcommand __load" -l format -d 'How to print results' -r -f -a "human\t''
json\t''"
complete -c latebound -n "__fish_latebound_using_subcommand __load" -l color -d 'When to use colours: only on a terminal that NO_COLOR does not forbid, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c latebound -n "__fish_latebound_using_subcommand __load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c latebound -n "__fish_latebound_using_subcommand __load" -s V -l version -d 'Print version'
