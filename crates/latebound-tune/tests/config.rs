// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a configuration may say, what is refused and why, and its published schema.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says why and panics")]

use std::path::Path;

use latebound_model::Nanos;
use latebound_model::Priority;
use latebound_tune::{Config, PolicyKind, ThreadClass, Weight};

fn refused(text: &str) -> String {
    Config::parse(text).unwrap_err().to_string()
}

#[test]
fn the_commented_text_says_the_defaults() {
    let written = Config::parse(Config::COMMENTED).unwrap();
    let default = Config::default();
    assert_eq!(
        (written.policy, written.limits, written.learning, written.watchdog, written.daemon),
        (default.policy, default.limits, default.learning, default.watchdog, default.daemon)
    );
    for class in [
        ThreadClass::Interrupt,
        ThreadClass::Ksoftirqd,
        ThreadClass::Ktimers,
        ThreadClass::Flusher,
        ThreadClass::Worker,
        ThreadClass::Kswapd,
        ThreadClass::Journal,
        ThreadClass::Kthreadd,
    ] {
        assert!(written.class.contains_key(&class), "{class:?}");
        assert_eq!(written.rules(class), default.rules(class));
    }
    assert_eq!(Config::parse("").unwrap(), default);
}

#[test]
fn the_weights_of_the_paper_are_the_defaults() {
    let config = Config::default();
    assert_eq!(config.rules(ThreadClass::Interrupt).weight, Weight::INTERRUPT);
    assert_eq!(config.rules(ThreadClass::Kswapd).weight, Weight::OTHER);
}

#[test]
fn what_is_given_holds_and_the_rest_stays() {
    let config = Config::parse(
        "policy = \"pip\"\n[limits]\nhold = \"3ms\"\n[class.interrupt]\nweight = 1.5\nbelow-default = true\n",
    )
    .unwrap();
    assert_eq!(
        (config.policy, config.limits.hold.0, config.limits.burst),
        (PolicyKind::Pip, Nanos::from_millis(3), 50)
    );
    let rules = config.rules(ThreadClass::Interrupt);
    assert_eq!((rules.weight.get(), rules.ceiling, rules.below_default), (1500, Priority::new(90), true));
}

#[test]
fn a_file_of_metrics_is_none_unless_given() {
    assert_eq!(Config::default().metrics.file, None);
    let given = Config::COMMENTED.replace("# file =", "file =");
    let file = Config::parse(&given).unwrap().metrics.file.unwrap();
    assert_eq!(file, Path::new("/var/lib/prometheus/node-exporter/latebound.prom"));
}

#[test]
fn orders_that_deadlock_are_refused_with_the_reason() {
    let said = refused("policy = \"static\"\n[class.ksoftirqd]\npriority = 20\n[class.rcu]\npriority = 10\n");
    assert!(said.contains("RCU may not be below ksoftirqd") && said.contains("give at most 10"), "{said}");
    let said = refused("[class.rcu]\npriority = 30\n[class.irq-work]\npriority = 29\n");
    assert!(
        said.contains("irq_work may not be below RCU") && said.contains("[class.irq-work] to 30"),
        "{said}"
    );
    let said = refused("[class.ktimers]\nceiling = 40\n");
    assert!(said.contains("ktimers may not be below ksoftirqd") && said.contains("ceiling = 80"), "{said}");
    Config::parse(
        "[class.ksoftirqd]\npriority = 10\n[class.rcu]\npriority = 10\n[class.irq-work]\npriority = 11\n",
    )
    .unwrap();
}

#[test]
fn migration_rcu_and_the_unknown_are_not_tuned() {
    assert!(refused("[class.migration]\nceiling = 50\n").contains("stop_machine"));
    assert!(refused("[class.rcu]\nceiling = 50\n").contains("relations never change it"));
    assert!(refused("[class.other]\nceiling = 50\n").contains("no known class"));
}

#[test]
fn nothing_may_reach_the_watchdog() {
    let said = refused("[watchdog]\npriority = 60\n[class.worker]\nceiling = 60\n");
    assert!(said.contains("watchdog") && said.contains("at most 59"), "{said}");
}

#[test]
fn misspelt_keys_and_senseless_values_are_refused() {
    assert!(refused("polcy = \"pip\"").contains("polcy"));
    assert!(refused("policy = \"best\"").contains("weighted-average"));
    assert!(refused("[limits]\nhold = \"10\"").contains("10ms"), "{}", refused("[limits]\nhold = \"10\""));
    assert!(refused("[class.interrupt]\nweight = -1.0").contains("not a weight"));
    assert!(refused("[class.interrupt]\nceiling = 100").contains("not a real-time priority"));
    assert!(refused("[learning]\nthreshold = nan").contains("above 0"));
    assert!(refused("[daemon]\nruntime = \"2ms\"\nperiod = \"3ms\"").contains("at most half"));
    assert!(refused("[limits]\nburst = 0").contains("off"));
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/tune.schema.json");
    let schema = serde_json::to_string_pretty(&Config::json_schema()).unwrap() + "\n";
    if std::env::var_os("LATEBOUND_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &schema).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == schema,
        "{} is not what Config::json_schema() gives; look at the change, then take it over with: LATEBOUND_BLESS=1 \
         cargo test -p latebound-tune --test config",
        path.display()
    );
}
