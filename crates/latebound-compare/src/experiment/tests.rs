// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns, places and boots of a plan, what no plan can be, and what its systems are called.

use super::*;

fn plan() -> Plan {
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    let systems = names(["debian:6.12@none", "debian:6.12-rt"]);
    let workloads = names(["tcp:size=14+cpu:threads=2", "sqlite"]);
    let times = (Nanos::from_secs(1), Nanos::from_micros(997));
    Plan::new((systems, workloads), 2, times, None).unwrap()
}

fn cells(plan: &Plan) -> Vec<Cell> {
    plan.cells(Path::new("models")).collect()
}

#[test]
fn systems_take_turns_and_every_run_has_a_place_of_its_own() {
    let cells = cells(&plan());
    let order: Vec<(u32, usize, usize)> =
        cells.iter().map(|cell| (cell.run, cell.workload, cell.system)).collect();
    assert_eq!(order[..5], [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 0, 0)]);
    let places: BTreeSet<&PathBuf> = cells.iter().map(|cell| &cell.place).collect();
    assert_eq!(places.len(), 8);
    assert!(cells[0].place.ends_with("tcp-size-14-cpu-threads-2/debian-6.12-none/1.run"));
}

#[test]
fn the_folders_of_a_name_of_dots_are_not_the_folders_above() {
    let systems = [".", "..", "../linux"].map(str::to_owned).to_vec();
    let times = (Nanos::from_secs(1), Nanos::from_micros(997));
    let plan = Plan::new((systems, vec!["ipc".to_owned()]), 1, times, None).unwrap();
    let places: Vec<PathBuf> = cells(&plan).into_iter().map(|cell| cell.place).collect();
    let expected = ["-", "--", "..-linux"].map(|name| PathBuf::from(format!("models/ipc/{name}/1.run")));
    assert_eq!(places, expected);
}

#[test]
fn each_boot_runs_the_workloads_that_lack_a_run_in_rotated_order() {
    let plan = plan();
    let mut cells = cells(&plan);
    cells.retain(|cell| !(cell.run == 2 && cell.system == 1 && cell.workload == 0));
    let boots: Vec<Vec<usize>> =
        plan.boots(&cells).iter().map(|boot| boot.iter().map(|cell| cell.workload).collect()).collect();
    assert_eq!(boots, [vec![1, 0], vec![1, 0], vec![0, 1], vec![1]]);
}

#[test]
fn a_workload_may_be_several_loads() {
    let words = plan().words(0);
    assert_eq!(words[5..], ["--load", "tcp:size=14", "--load", "cpu:threads=2"]);
    assert_eq!(words[..5], ["measure", "--period", "997000ns", "--duration", "1000000000ns"]);
}

#[test]
fn a_plan_that_is_read_back_is_held_to_what_a_new_one_is() {
    let text = serde_json::to_string(&plan()).unwrap();
    assert_eq!(Plan::parse(text.as_bytes()).unwrap(), plan());
    let many: Vec<String> = (0..60_000).map(|name| format!("\"{name}\"")).collect();
    for (from, to, why) in [
        ("latebound.experiment/1", "latebound.experiment/9", "schema latebound.experiment/9"),
        ("\"sqlite\"", "\"\"", "a workload has no name"),
        ("\"sqlite\"", "\"tcp size=14 cpu threads=2\"", "given twice"),
        (",\"debian:6.12-rt\"", "", "two at least"),
        ("\"tcp:size=14+cpu:threads=2\",\"sqlite\"", "", "no workload"),
        ("\"runs\":2", "\"runs\":4294967295", "4294967295 Runs of each"),
        ("\"runs\":2", "\"runs\":0", "0 Runs of each"),
        ("\"sqlite\"", &many.join(","), "more than 100000 Runs"),
        ("\"period\":997000", "\"period\":0", "--period 0 ns"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Plan::parse(text.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn systems_are_called_by_their_models_only_where_those_differ() {
    let systems = ["debian:6.12@none", "debian:6.12-rt"].map(str::to_owned);
    let (none, rt) = (Some(PreemptionModel::None), Some(PreemptionModel::Rt));
    assert_eq!(names(&systems, &[none, rt]), ["none", "rt"]);
    assert_eq!(names(&systems, &[none, None]), ["none", "debian:6.12-rt"]);
    assert_eq!(names(&systems, &[rt, rt]), systems);
}

#[test]
fn the_other_systems_that_lack_runs_are_named_once_in_the_plans_order() {
    let plan = plan();
    let all = cells(&plan);
    assert_eq!(plan.others_lacking(0, &all), [&plan.systems[1]]);
    assert_eq!(plan.others_lacking(1, &all), [&plan.systems[0]]);
    let own: Vec<Cell> = all.into_iter().filter(|cell| cell.system == 0).collect();
    assert!(plan.others_lacking(0, &own).is_empty());
}

#[test]
fn preempt_rt_is_booted_by_a_kernel_and_all_else_by_its_command_line() {
    assert!(how_to_boot("rt").contains("CONFIG_PREEMPT_RT"));
    assert!(how_to_boot("lazy").contains("preempt=lazy"));
}
