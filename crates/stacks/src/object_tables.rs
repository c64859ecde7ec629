//! The unwind tables of objects, read when the unwinder asks for them first.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use elf::{ElfError, ObjectSource, OpenedObject};
use model::{Name, ObjectIdentity, Pid, Space};
use unwinder::{ObjectNumber, ObjectSections, UnwindTables};

use crate::interpreters::{InterpreterObject, Interpreters};
use crate::table_bytes::TableBytes;

/// Collects a sentence for each object with unwind tables that cannot be read. Clones share the sentences, so that they can be read
/// while stacks are unwound.
#[derive(Clone, Default, Debug)]
pub struct RefusedTables(Arc<Mutex<BTreeSet<String>>>);

/// The maximum number of remarks on objects that are kept, and that a snapshot of a live view has.
pub const MAX_REMARKS: usize = 16;

impl RefusedTables {
    fn add(&self, object: &Name, refused: &[ElfError]) {
        if let Some(first) = refused.first() {
            let mut sentences = self.lock();
            if sentences.len() < MAX_REMARKS {
                sentences.insert(format!("{object}: {first}"));
            }
        }
    }

    /// Returns the sentences so far. Objects have the paths that they have on the profiled machine.
    pub fn sentences(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A panic elsewhere does not make the set wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The finds in objects when they were opened. Clones share the lists.
#[derive(Clone, Default, Debug)]
pub(crate) struct OpenedLists {
    pub(crate) refused: RefusedTables,
    /// `None` where nobody asks for interpreters.
    pub(crate) interpreters: Option<Interpreters>,
}

/// Opens objects and reads their unwind tables, whatever holds the bytes of these.
pub(crate) trait TableSource: fmt::Debug + Send + Sync {
    /// Reads the tables of an object that the process `pid` has mapped. Returns `None` where the object cannot be had, is another
    /// one than was mapped, or of an architecture that cannot be unwound.
    fn read(&self, space: &Space, pid: Pid, lists: &OpenedLists) -> Option<OpenTables>;

    /// See [`ObjectSource::close`].
    fn close(&self, identity: &ObjectIdentity);

    /// See [`ObjectSource::close_all`].
    fn close_all(&self);

    /// See [`ObjectSource::release_caches`].
    fn release_caches(&self);
}

impl<O: ObjectSource> TableSource for O {
    fn read(&self, space: &Space, pid: Pid, lists: &OpenedLists) -> Option<OpenTables> {
        let opened = match space {
            Space::Object(identity) => self.open(identity, pid)?,
            Space::Vdso { build_id } => {
                OpenedObject { object: self.open_vdso(build_id.as_ref())?, debug_file: None }
            }
            _ => return None,
        };
        let mut sections = ObjectSections::from_object(&opened.object)?;
        if let Some(debug_file) = &opened.debug_file {
            sections.add_debug_file(debug_file);
        }
        let tables = UnwindTables::new(sections.map_bytes(TableBytes::new));
        let interpreters = lists.interpreters.as_ref();
        let interpreter = interpreters.and_then(|interpreters| interpreters.of_object(&opened.object));
        if let Space::Object(identity) = space {
            lists.refused.add(&identity.path, tables.refused());
        }
        let bytes = opened.object.headers_size() + tables.indices_size();
        Some(OpenTables { tables: Arc::new(tables), bytes, interpreter })
    }

    fn close(&self, identity: &ObjectIdentity) {
        ObjectSource::close(self, identity);
    }

    fn close_all(&self) {
        ObjectSource::close_all(self);
    }

    fn release_caches(&self) {
        ObjectSource::release_caches(self);
    }
}

/// The unwind tables of an object that was opened.
#[derive(Debug)]
pub(crate) struct OpenTables {
    tables: Arc<UnwindTables<TableBytes>>,
    /// The memory that the tables and the headers of the object take, without unpacked sections, which have a budget of their own.
    bytes: usize,
    /// `None` once it is in the list of interpreters, too.
    interpreter: Option<InterpreterObject>,
}

/// The unwind tables of one object, which is opened when they are asked for first.
#[derive(Debug)]
pub(crate) struct ObjectTables {
    space: Space,
    number: ObjectNumber,
    /// A process that maps the object.
    pid: Pid,
    source: Arc<dyn TableSource>,
    lists: OpenedLists,
    tables: OnceLock<Option<OpenTables>>,
}

impl ObjectTables {
    pub(crate) fn new(
        space: Space,
        number: ObjectNumber,
        pid: Pid,
        source: Arc<dyn TableSource>,
        lists: &OpenedLists,
    ) -> Self {
        Self { space, number, pid, source, lists: lists.clone(), tables: OnceLock::new() }
    }

    /// Returns the tables as [`TableSource::read`] does, which is asked once.
    pub(crate) fn tables(&self) -> Option<Arc<UnwindTables<TableBytes>>> {
        let read = || {
            let mut open = self.source.read(&self.space, self.pid, &self.lists)?;
            if let (Some(interpreters), Some(found)) = (&self.lists.interpreters, open.interpreter.take()) {
                interpreters.add(self.number, found);
            }
            Some(open)
        };
        self.tables.get_or_init(read).as_ref().map(|open| Arc::clone(&open.tables))
    }

    /// Returns the number of bytes of memory that the tables take while they are open.
    pub(crate) fn size(&self) -> usize {
        self.tables.get().and_then(Option::as_ref).map_or(0, |open| open.bytes)
    }

    /// Lets the source forget the object. Its last user closes its file.
    pub(crate) fn close(&self) {
        if let Space::Object(identity) = &self.space {
            self.source.close(identity);
        }
    }

    /// Returns true if the tables have been asked for before.
    pub(crate) fn is_open(&self) -> bool {
        self.tables.get().is_some()
    }
}
