// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shipped for Kubernetes, by its own schema and by the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::read_back::by_script;

#[test]
fn the_daemonset_is_valid_by_the_schema_of_kubernetes() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let manifest = packaging.join("kubernetes/latebound-serve.yaml");
    // Each resource of the file, held against the schema of the newest version that the package has and of an older one.
    let resources = by_script("manifest.py", &[manifest.as_os_str()]);
    let resources: Vec<Value> = serde_json::from_value(resources).unwrap();
    let kinds: Vec<&str> = resources.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["Namespace", "DaemonSet"]);

    let pod = &resources[1]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let security = &container["securityContext"];
    assert_eq!((&security["privileged"], &security["readOnlyRootFilesystem"]), (&false.into(), &true.into()));
    assert!(pod["hostPID"].is_null() && pod["hostNetwork"].is_null());

    // The command line is understood up to the first file, which is not on this machine.
    let folder = tempfile::tempdir().unwrap();
    let arguments = container["args"].as_array().unwrap().iter().map(|one| one.as_str().unwrap());
    let arguments = arguments.map(|one| one.replace("/etc/latebound", folder.path().to_str().unwrap()));
    let output = Command::new(env!("CARGO_BIN_EXE_latebound")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("tls.crt: No such file"), "{said}");

    // The image has what the container starts.
    let recipe = std::fs::read_to_string(packaging.join("oci/Containerfile")).unwrap();
    assert!(recipe.contains("ENTRYPOINT [\"/usr/local/bin/latebound\"]"), "{recipe}");
    assert!(recipe.contains(container["image"].as_str().unwrap()), "{recipe}");
    assert_eq!(container["image"], format!("latebound:{}", env!("CARGO_PKG_VERSION")));
}
