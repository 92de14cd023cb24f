// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for which kernel thread, and over what. Owns the set of relations with R_k of each thread; decides no
//! priority.
//!
//! Every change of one relation takes constant time: a slab of relations, threaded on three doubly linked lists (those
//! of one kernel thread, of one object, of one task), with a hash of keys beside. An end that concerns many relations (a
//! task that exits, an inode written back that three tasks dirtied) takes that many steps.

use std::collections::HashMap;

use latebound_model::{Object, Relation, Tid};

use crate::waiters::Waiters;
use latebound_model::Dependency;
use latebound_model::Priority;

const BY_THREAD: usize = 0;
const BY_OBJECT: usize = 1;
const BY_TASK: usize = 2;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    relation: Relation,
    links: [Link; 3],
}

/// Whether a relation was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// It is new.
    New,
    /// It was there already; its priority and dependency are now these.
    Known,
    /// There is no room for more; it was counted as lost.
    Full,
}

/// All relations of this moment.
#[derive(Clone, Debug)]
pub struct Relations {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_key: HashMap<(Tid, Object, Tid), u32>,
    threads: HashMap<Tid, u32>,
    objects: HashMap<Object, u32>,
    tasks: HashMap<Tid, u32>,
    waiters: HashMap<Tid, Waiters>,
    /// Of those, the kernel threads.
    inherited: HashMap<Tid, Waiters>,
    capacity: usize,
    lost: u64,
    changed: Vec<Tid>,
}

impl Relations {
    /// An empty set that holds at most so many relations.
    pub fn new(capacity: usize) -> Relations {
        Relations {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            threads: HashMap::new(),
            objects: HashMap::new(),
            tasks: HashMap::new(),
            waiters: HashMap::new(),
            inherited: HashMap::new(),
            capacity: capacity.min(NONE as usize),
            lost: 0,
            changed: Vec::new(),
        }
    }

    /// A task begins to wait. Constant time.
    pub fn begin(&mut self, relation: Relation) -> BeginOutcome {
        if let Some(&slot) = self.by_key.get(&relation.key()) {
            self.replace(slot, relation.priority, relation.dependency);
            return BeginOutcome::Known;
        }
        if self.by_key.len() >= self.capacity {
            self.lost += 1;
            return BeginOutcome::Full;
        }
        let links = [Link { before: NONE, after: NONE }; 3];
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Slot { relation, links };
                slot
            }
            None => {
                self.slots.push(Slot { relation, links });
                (self.slots.len() - 1) as u32
            }
        };
        self.by_key.insert(relation.key(), slot);
        for list in [BY_THREAD, BY_OBJECT, BY_TASK] {
            let head = self.head(list, &relation).replace(slot).unwrap_or(NONE);
            self.slots[slot as usize].links[list].after = head;
            if head != NONE {
                self.slots[head as usize].links[list].before = slot;
            }
        }
        self.for_each_account(&relation, |waiters| waiters.add(relation.priority, relation.dependency));
        self.changed.push(relation.thread);
        BeginOutcome::New
    }

    /// A task no longer waits for this thread over this object. Constant time. Returns whether it did.
    pub fn end(&mut self, thread: Tid, object: Object, task: Tid) -> bool {
        let slot = self.by_key.get(&(thread, object, task)).copied();
        slot.is_some_and(|slot| {
            self.remove(slot);
            true
        })
    }

    /// The object is done: nobody waits for it any more. Returns how many did.
    pub fn end_object(&mut self, object: Object) -> usize {
        self.end_list(BY_OBJECT, self.objects.get(&object).copied())
    }

    /// One task no longer waits for the object, whichever threads stood between. One step for each relation of the object.
    pub fn end_object_of(&mut self, object: Object, task: Tid) -> usize {
        let mut slot = self.objects.get(&object).copied().unwrap_or(NONE);
        let mut ended = 0;
        while slot != NONE {
            let Slot { relation, links } = self.slots[slot as usize];
            if relation.task == task {
                self.remove(slot);
                ended += 1;
            }
            slot = links[BY_OBJECT].after;
        }
        ended
    }

    /// A task exited, or left the real-time policies. Returns how many relations it had.
    pub fn end_task(&mut self, task: Tid) -> usize {
        self.end_list(BY_TASK, self.tasks.get(&task).copied())
    }

    /// A task waits for nothing any more, but for these objects. One step for each relation of it. Returns how many relations ended.
    pub fn end_task_besides(&mut self, task: Tid, stays: impl Fn(Object) -> bool) -> usize {
        let mut slot = self.tasks.get(&task).copied().unwrap_or(NONE);
        let mut ended = 0;
        while slot != NONE {
            let Slot { relation, links } = self.slots[slot as usize];
            if !stays(relation.object) {
                self.remove(slot);
                ended += 1;
            }
            slot = links[BY_TASK].after;
        }
        ended
    }

    /// A kernel thread is gone, or is no longer the one that does this work. Returns how many relations it had.
    pub fn end_thread(&mut self, thread: Tid) -> usize {
        let ended = self.end_list(BY_THREAD, self.threads.get(&thread).copied());
        self.waiters.remove(&thread);
        self.inherited.remove(&thread);
        ended
    }

    /// A task's priority is now another; every relation of it follows. One step for each of them.
    pub fn task_priority(&mut self, task: Tid, priority: Priority) -> usize {
        let mut slot = self.tasks.get(&task).copied().unwrap_or(NONE);
        let mut changed = 0;
        while slot != NONE {
            let Slot { relation, links } = self.slots[slot as usize];
            self.replace(slot, priority, relation.dependency);
            slot = links[BY_TASK].after;
            changed += 1;
        }
        changed
    }

    /// What is known of this task's wait for this thread over this object.
    pub fn get(&self, thread: Tid, object: Object, task: Tid) -> Option<&Relation> {
        let slot = *self.by_key.get(&(thread, object, task))?;
        self.slots.get(slot as usize).map(|slot| &slot.relation)
    }

    /// Whether anybody waits for this object.
    pub fn has_object(&self, object: Object) -> bool {
        self.objects.contains_key(&object)
    }

    /// R_k of one kernel thread.
    pub fn waiters(&self, thread: Tid) -> Option<&Waiters> {
        self.waiters.get(&thread).filter(|waiters| waiters.number() > 0)
    }

    /// The highest priority of the tasks that wait for this thread; those that are kernel threads themselves are not asked. What it
    /// waits for itself, it waits for with this priority: so no thread donates itself what it has inherited, over whichever others.
    pub fn highest_task(&self, thread: Tid) -> Option<Priority> {
        let waiters = self.waiters(thread)?;
        match self.inherited.get(&thread) {
            Some(inherited) => waiters.maximum_besides(inherited),
            None => waiters.maximum(),
        }
    }

    /// The relations of one kernel thread, the newest first.
    pub fn of_thread(&self, thread: Tid) -> impl Iterator<Item = &Relation> {
        let mut slot = self.threads.get(&thread).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let found = self.slots.get(slot as usize)?;
            slot = found.links[BY_THREAD].after;
            Some(&found.relation)
        })
    }

    /// The relations over one object, the newest first.
    pub fn of_object(&self, object: Object) -> impl Iterator<Item = &Relation> {
        let mut slot = self.objects.get(&object).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let found = self.slots.get(slot as usize)?;
            slot = found.links[BY_OBJECT].after;
            Some(&found.relation)
        })
    }

    /// How many relations there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// How many relations there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The threads whose R_k changed since this was last asked, each once.
    pub fn take_changed(&mut self) -> Vec<Tid> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn head(&mut self, list: usize, relation: &Relation) -> Entry<'_> {
        match list {
            BY_THREAD => Entry::Thread(&mut self.threads, relation.thread),
            BY_OBJECT => Entry::Object(&mut self.objects, relation.object),
            _ => Entry::Thread(&mut self.tasks, relation.task),
        }
    }

    fn replace(&mut self, slot: u32, priority: Priority, dependency: Dependency) {
        let relation = self.slots[slot as usize].relation;
        if (relation.priority, relation.dependency) == (priority, dependency) {
            return;
        }
        self.for_each_account(&relation, |waiters| {
            waiters.remove(relation.priority, relation.dependency);
            waiters.add(priority, dependency);
        });
        self.slots[slot as usize].relation = Relation { priority, dependency, ..relation };
        self.changed.push(relation.thread);
    }

    fn end_list(&mut self, list: usize, first: Option<u32>) -> usize {
        let mut slot = first.unwrap_or(NONE);
        let mut ended = 0;
        while slot != NONE {
            let after = self.slots[slot as usize].links[list].after;
            self.remove(slot);
            slot = after;
            ended += 1;
        }
        ended
    }

    fn remove(&mut self, slot: u32) {
        let Slot { relation, links } = self.slots[slot as usize];
        for (list, link) in links.into_iter().enumerate() {
            if link.after != NONE {
                self.slots[link.after as usize].links[list].before = link.before;
            }
            if link.before != NONE {
                self.slots[link.before as usize].links[list].after = link.after;
            } else {
                self.head(list, &relation).set(link.after);
            }
        }
        self.by_key.remove(&relation.key());
        self.free.push(slot);
        self.for_each_account(&relation, |waiters| {
            waiters.remove(relation.priority, relation.dependency);
        });
        self.changed.push(relation.thread);
    }

    /// Where this relation counts.
    fn for_each_account(&mut self, relation: &Relation, mut change: impl FnMut(&mut Waiters)) {
        change(self.waiters.entry(relation.thread).or_default());
        if relation.inherited {
            change(self.inherited.entry(relation.thread).or_default());
        }
    }
}

/// The head of one list.
enum Entry<'a> {
    Thread(&'a mut HashMap<Tid, u32>, Tid),
    Object(&'a mut HashMap<Object, u32>, Object),
}

impl Entry<'_> {
    fn replace(self, slot: u32) -> Option<u32> {
        match self {
            Entry::Thread(map, key) => map.insert(key, slot),
            Entry::Object(map, key) => map.insert(key, slot),
        }
    }

    /// [`NONE`]: the list is empty now.
    fn set(self, slot: u32) {
        match (self, slot) {
            (Entry::Thread(map, key), NONE) => map.remove(&key),
            (Entry::Object(map, key), NONE) => map.remove(&key),
            (entry, slot) => entry.replace(slot),
        };
    }
}
