// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shipped for Kubernetes: by its own schema, by the command line, and run with the privileges of its containers.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use latebound_model::{Nanos, RunVerb};
use latebound_store::{Spool, read_run};
use serde_json::Value;

use crate::authority::Authority;
use crate::control_group::Group;
use crate::killed::Killed;
use crate::prometheus::packaging;
use crate::read_back::by_script;
use crate::s3::S3Server;
use crate::service::{Service, all_runs, becomes_true};

const LATEBOUND: &str = env!("CARGO_BIN_EXE_latebound");
const NODE: &str = "node-7";
const PATCHES: [&str; 2] = ["measure.yaml", "explain-pods.yaml"];

/// The resources of the manifest, with these patches. Each is held against the schema of the newest version that the package has and of an
/// older one, which know no field that Kubernetes does not know.
fn resources(patches: &[&str]) -> Vec<Value> {
    let files = [&["latebound-serve.yaml"], patches].concat();
    let files: Vec<PathBuf> = files.iter().map(|name| packaging("kubernetes").join(name)).collect();
    let files: Vec<&OsStr> = files.iter().map(|file| file.as_os_str()).collect();
    serde_json::from_value(by_script("manifest.py", &files)).unwrap()
}

fn pod(resources: &[Value]) -> &Value {
    &resources.last().unwrap()["spec"]["template"]["spec"]
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let mut containers = pod["containers"].as_array().unwrap().iter();
    containers.find(|one| one["name"] == name).unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

/// The environment of a container, but for values of the pod and of secrets.
fn environment(resources: &[Value], container: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for from in container["envFrom"].as_array().into_iter().flatten() {
        let name = &from["configMapRef"]["name"];
        let Some(map) =
            resources.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == *name)
        else {
            assert_eq!(
                from["secretRef"],
                serde_json::json!({ "name": "latebound-push-keys", "optional": true })
            );
            continue;
        };
        let data = map["data"].as_object().unwrap().iter();
        all.extend(data.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())));
    }
    for one in container["env"].as_array().into_iter().flatten() {
        let value = match &one["valueFrom"]["fieldRef"]["fieldPath"] {
            Value::String(path) if path == "spec.nodeName" => NODE.to_owned(),
            Value::String(path) => path.clone(),
            _ => one["value"].as_str().unwrap().to_owned(),
        };
        all.insert(one["name"].as_str().unwrap().to_owned(), value);
    }
    all
}

/// The arguments of a container, with its environment in the place of `$(NAME)`, as the kubelet does it.
fn arguments(container: &Value, environment: &BTreeMap<String, String>) -> Vec<String> {
    let filled = |argument: &str| {
        let filled = environment
            .iter()
            .fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value));
        assert!(!filled.contains("$("), "{argument} has a name that is not in the environment");
        filled
    };
    texts(&container["args"]).into_iter().map(filled).collect()
}

#[test]
fn the_daemonset_is_valid_by_the_schema_of_kubernetes() {
    let resources = resources(&[]);
    let kinds: Vec<&str> = resources.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "DaemonSet"]);

    let pod = pod(&resources);
    assert!(["hostPID", "hostIPC", "hostNetwork"].iter().all(|name| pod[name].is_null()));
    assert_eq!(pod["automountServiceAccountToken"], false);
    let recipe = fs::read_to_string(packaging("oci/Containerfile")).unwrap();
    assert!(recipe.contains("ENTRYPOINT [\"/usr/local/bin/latebound\"]"), "{recipe}");
    let volumes: Vec<&Value> = pod["volumes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    for (name, capabilities) in [("serve", &["BPF", "PERFMON", "SYS_RESOURCE"][..]), ("push", &[])] {
        let container = container(pod, name);
        let security = &container["securityContext"];
        let is = |name: &str| security[name].as_bool().unwrap();
        assert!(
            !is("privileged") && !is("allowPrivilegeEscalation") && is("readOnlyRootFilesystem"),
            "{security}"
        );
        assert_eq!(texts(&security["capabilities"]["drop"]), ["ALL"]);
        let added = &security["capabilities"]["add"];
        assert_eq!(if added.is_null() { Vec::new() } else { texts(added) }, capabilities);
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
        let resources = &container["resources"];
        assert!(resources["limits"]["memory"].is_string() && resources["requests"]["memory"].is_string());
        // The image has what the container starts.
        assert!(recipe.contains(container["image"].as_str().unwrap()), "{recipe}");
        assert_eq!(container["image"], format!("latebound:{}", env!("CARGO_PKG_VERSION")));
        // Only the spool can be written, and every folder that is mounted is one of the pod.
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(volumes.contains(&&mount["name"]), "{mount}");
            assert!(mount["name"] == "spool" || mount["readOnly"] == true, "{mount}");
        }
    }
    // Keys come from a secret alone.
    let map = resources[1]["data"].as_object().unwrap();
    assert!(!map.keys().any(|name| name.contains("KEY") || name.contains("TOKEN")), "{map:?}");
}

#[test]
fn every_argument_of_the_daemonset_is_one_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    // Up to the first file, which is not on this machine.
    let is_understood = |arguments: &[String], environment: &BTreeMap<String, String>, stops_at: &str| {
        let here = |one: &String| {
            let here = folder.path().to_str().unwrap();
            one.replace("/etc/latebound", here).replace("/var/lib/latebound", here)
        };
        let mut command = Command::new(LATEBOUND);
        command.args(arguments.iter().map(here)).envs(environment);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(stops_at), "{arguments:?}: {said}");
    };
    for patches in [&[][..], &PATCHES[..1], &PATCHES[1..], &PATCHES] {
        let resources = resources(patches);
        let serve = container(pod(&resources), "serve");
        let environment = environment(&resources, serve);
        is_understood(&arguments(serve, &environment), &environment, "tls.crt: No such file");
    }
    let all = resources(&[]);
    // What is a comment is one by which somebody types it.
    let manifest = fs::read_to_string(packaging("kubernetes/latebound-serve.yaml")).unwrap();
    let comments = manifest.lines().filter_map(|line| line.trim().strip_prefix("# - --"));
    let comments: Vec<String> = comments.map(|rest| format!("--{rest}")).collect();
    assert_eq!(comments.len(), 2, "{comments:?}");
    let serve = container(pod(&all), "serve");
    let of_serve = environment(&all, serve);
    is_understood(&[arguments(serve, &of_serve), comments].concat(), &of_serve, "tls.crt: No such file");

    let push = container(pod(&all), "push");
    let of_push = environment(&all, push);
    let arguments = arguments(push, &of_push);
    for argument in [&format!("--host={NODE}"), "--store=s3://fleet/lab"] {
        assert!(arguments.iter().any(|one| one == argument), "{arguments:?}");
    }
    // It would try again and again.
    let once: Vec<String> = arguments.into_iter().filter(|one| !one.starts_with("--every=")).collect();
    is_understood(&once, &of_push, "cannot read the spool");
}

/// What a container has of its node, in the folder `$1`: a root folder of its own that cannot be written, with these programs (`$4`, `$5`) and
/// what they are linked with, the certificates of `$3` and the processes, and the spool's folder `$2`. The rest becomes the container, without any capability.
const AS_A_CONTAINER: &str = r#"
set -e
root=$1 state=$2 ca=$3 setpriv=$4 latebound=$5
shift 5
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir -p "$root/usr/local/bin" "$root/proc" "$root/var/lib/latebound" "$root/etc/latebound/ca"
for library in $(ldd "$setpriv" "$latebound" | grep -o '/[^ :]*' | sort -u | grep '\.so'); do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
done
cp -L "$setpriv" "$root/setpriv"
cp -L "$latebound" "$root/usr/local/bin/latebound"
cp "$ca" "$root/etc/latebound/ca/ca.crt"
mount --rbind /proc "$root/proc"
mount --bind "$state" "$root/var/lib/latebound"
mount -o remount,ro "$root"
exec chroot "$root" /setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /usr/local/bin/latebound "$@"
"#;

#[test]
fn live_beside_push_of_the_daemonset_needs_no_privilege() {
    // It changes what is mounted, for itself.
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(&folder.path().join("authority"));
    let server = S3Server::start_with_tls(&authority.certificate, &authority.key);
    let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&state).unwrap();
    // Runs as serve writes them: of an hour that is over, and of this one.
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../latebound-import/tests/samples/cyclictest.json");
    let imported = folder.path().join("a.run");
    let mut import = Command::new(LATEBOUND);
    assert!(
        import.arg("import").arg(sample).arg("--output").arg(&imported).output().unwrap().status.success()
    );
    let mut run = read_run(&imported).unwrap();
    let mut spool = Spool::open(&state.join("spool"), 1 << 30).unwrap();
    for number in 0..5u64 {
        let ago = SignedDuration::from_hours(if number < 4 { 3 } else { 0 });
        run.started_at = (Timestamp::now() - ago).to_string();
        run.started_monotonic = Nanos(run.started_monotonic.0 + number);
        spool.write(&format!("20261127T{number:06}Z"), &run).0.unwrap();
    }
    drop(spool);

    let resources = resources(&[]);
    let push = container(pod(&resources), "push");
    let mut environment = environment(&resources, push);
    // The server and its keys, in the place of those of the ConfigMap and the secret.
    let settings = server.settings(folder.path());
    let reached = settings.iter().filter(|(name, _)| *name != "XDG_CACHE_HOME");
    environment.extend(reached.map(|(name, value)| ((*name).to_owned(), value.clone())));
    let security = &push["securityContext"];
    assert_eq!((&security["runAsUser"], fs::metadata(&state).unwrap().uid()), (&0.into(), 0));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", AS_A_CONTAINER, "sh"]).args([&root, &state, &authority.ca]);
    command.args(["/usr/bin/setpriv", LATEBOUND]).args(arguments(push, &environment));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(&environment);
    let log = fs::File::create(folder.path().join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut pushing = Killed(command.spawn().unwrap());
    let said = || fs::read_to_string(folder.path().join("log")).unwrap();
    let left = || all_runs(&state.join("spool")).len();
    assert!(becomes_true(Duration::from_secs(60), || left() == 1), "{} Runs left: {}", left(), said());

    let process = Path::new("/proc").join(pushing.0.id().to_string());
    let status = fs::read_to_string(process.join("status")).unwrap();
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(status.contains(&format!("{capabilities}:\t0000000000000000")), "{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Name:\tlatebound"), "{status}");
    let written = fs::write(process.join("root/x"), "").unwrap_err();
    assert_eq!(written.raw_os_error(), Some(libc::EROFS), "{written}");
    // SAFETY: the child was not waited for yet, so its id is still its own.
    assert_eq!(unsafe { libc::kill(pushing.0.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(pushing.0.wait().unwrap().code(), Some(0), "{}", said());
    assert!(said().starts_with("4 Runs moved to s3://fleet/lab"), "{}", said());

    let mut list = Command::new(LATEBOUND);
    list.args(["store", "list", "--format", "json", "--store", "s3://fleet/lab"]).envs(settings);
    list.env("SSL_CERT_FILE", &authority.ca);
    let listed = list.output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|_| panic!("{listed:?}"));
    let partitions = listed["partitions"].as_array().unwrap();
    assert!(!partitions.is_empty(), "{listed}");
    assert!(partitions.iter().all(|one| one["host"] == NODE && one["level"] == "hour"), "{listed}");
}

#[test]
fn live_beside_serve_of_the_daemonset_needs_the_capabilities_it_names() {
    let _live = super::live();
    let folder = tempfile::tempdir().unwrap();
    let resources = resources(&PATCHES);
    let serve = container(pod(&resources), "serve");
    let added = texts(&serve["securityContext"]["capabilities"]["add"]);
    assert_eq!(added, ["BPF", "PERFMON", "SYS_RESOURCE", "SYS_NICE", "IPC_LOCK"]);
    // The group of all pods, with one in it.
    let environment = environment(&resources, serve);
    let options = arguments(serve, &environment);
    let path = options.iter().find_map(|one| one.strip_prefix("--explain-cgroup=")).unwrap();
    let pods = Group::unified(path);
    let uid = "1b2c3d4e_5f60_7182_93a4_b5c6d7e8f903";
    let pod = Group::unified(&format!("{path}/kubepods-pod{uid}.slice"));
    let mut sleeper = Command::new("perl");
    let sleeper =
        Killed(sleeper.args(["-MTime::HiRes=usleep", "-e", "usleep(2000) while 1"]).spawn().unwrap());
    pod.join(&sleeper);

    let bounding = added.iter().map(|name| format!(",+{}", name.to_lowercase())).collect::<String>();
    let spool = folder.path().join("spool");
    let mut service = Service::start_by(
        "setpriv",
        &spool,
        |command, latebound| {
            command.arg(format!("--bounding-set=-all{bounding}"));
            command.args(["--inh-caps=-all", "--no-new-privs", latebound]);
        },
        |command| {
            command.args(["--interval", "2s", "--measure"]).arg(format!("--explain-cgroup={path}"));
        },
    );
    let explained =
        || all_runs(&spool).iter().any(|run| run.worst.iter().any(|one| one.series.contains(path)));
    assert!(becomes_true(Duration::from_secs(40), explained), "nothing was explained");
    let threads = service.statuses();
    assert!(threads.iter().all(|status| status.contains("NoNewPrivs:\t1")), "{threads:?}");
    // All but IPC_LOCK are given up.
    assert!(threads.iter().all(|status| status.contains("CapPrm:\t0000000000004000")), "{threads:?}");
    assert_eq!(service.terminate(), Some(0));
    drop((sleeper, pod, pods));

    let runs = all_runs(&spool);
    let first = &runs[0];
    assert_eq!(first.verb, RunVerb::Check);
    assert_eq!(first.measure.as_ref().unwrap().priority, 95, "{:?}", first.missing);
    // Who was late is told by its own group, which names the pod.
    let whom: Vec<&str> =
        runs.iter().flat_map(|run| &run.blame).filter_map(|row| row.whom.as_deref()).collect();
    assert!(whom.iter().any(|whom| whom.contains(uid)), "{whom:?}");
}
