//! Where fields lie in the objects of V8, and the numbers of their types.
//!
//! V8 exports them for debuggers after the event as variables named `v8dbg_…` (`tools/gen-postmortem-metadata.py`,
//! `src/diagnostics/objects-debug.cc`). What it leaves out is the same in the releases that are known here, and stands below with its
//! source.

use std::collections::BTreeMap;

/// The constants of an object file, by their names without `v8dbg_`.
#[derive(Default, Debug)]
pub(crate) struct Constants(pub(crate) BTreeMap<String, i32>);

/// The prefix of their names.
pub(crate) const PREFIX: &[u8] = b"v8dbg_";
/// The maximum number of them. V8 has about 500.
pub(crate) const MAX_CONSTANTS: usize = 4096;

/// No field that is read lies further from its object's start. A constant that says so is wrong.
const MAX_OFFSET: u64 = 1 << 10;

impl Constants {
    fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(|value| u64::try_from(*value).ok())
    }

    /// Returns the offset of a field, whatever type its name ends in: that differs from release to release.
    fn field(&self, name: &str) -> Option<u64> {
        let start = format!("class_{name}__");
        let (found, value) = self.0.range(start.clone()..).next()?;
        let value = u64::try_from(*value).ok().filter(|value| *value <= MAX_OFFSET)?;
        found.starts_with(&start).then_some(value)
    }

    fn kind(&self, name: &str) -> Option<u16> {
        let start = format!("type_{name}__");
        let (found, value) = self.0.range(start.clone()..).next()?;
        found.starts_with(&start).then(|| u16::try_from(*value).ok()).flatten()
    }
}

/// The numbers of types (`InstanceType`), and offsets of fields in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) types: Types,
    /// The offset of the `SharedFunctionInfo` in a `JSFunction`.
    pub(crate) function_shared: u64,
    pub(crate) shared: SharedLayout,
    pub(crate) script: ScriptLayout,
    pub(crate) bytecode: BytecodeLayout,
    pub(crate) code: CodeLayout,
    /// `InterpreterData`: its bytecode.
    pub(crate) interpreter_data_bytecode: u64,
    /// `Map`: the number of the type of its objects.
    pub(crate) map_instance_type: u64,
}

/// The numbers of the types of objects (`InstanceType`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Types {
    pub(crate) map: u16,
    /// `JSFunction` and its subclasses.
    pub(crate) first_function: u16,
    pub(crate) last_function: u16,
    pub(crate) shared: u16,
    /// Since Node.js 24.
    pub(crate) shared_wrapper: Option<u16>,
    pub(crate) script: u16,
    pub(crate) scope_info: u16,
    pub(crate) bytecode: u16,
    pub(crate) interpreter_data: u16,
    pub(crate) code: u16,
    /// The object around machine code; in Node.js 18 that is the `Code` itself.
    pub(crate) instructions: u16,
    pub(crate) fixed_array: u16,
}

/// Offsets of fields in a `SharedFunctionInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SharedLayout {
    /// Bytecode, or what leads to it.
    pub(crate) data: u64,
    pub(crate) name: u64,
    pub(crate) script: u64,
    /// `SharedFunctionInfoWrapper`.
    pub(crate) wrapped: u64,
}

/// Offsets of fields in a `Script`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScriptLayout {
    pub(crate) source: u64,
    pub(crate) name: u64,
    pub(crate) line_offset: u64,
    pub(crate) column_offset: u64,
    pub(crate) line_ends: u64,
    pub(crate) id: u64,
}

/// Offsets of fields in a `BytecodeArray`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BytecodeLayout {
    /// The first byte of the bytecode.
    pub(crate) data: u64,
    pub(crate) positions: u64,
}

/// Offsets of fields in `Code`, and the object around its instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CodeLayout {
    /// The bytecode, or the data for deoptimization.
    pub(crate) data: u64,
    pub(crate) positions: u64,
    pub(crate) flags: u64,
    pub(crate) size: u64,
    pub(crate) instructions: Instructions,
    /// The mask of the kind in the flags.
    pub(crate) kind_mask: u32,
    /// The kind of the code of Sparkplug. Those of Maglev and TurboFan are the next ones (`CODE_KIND_LIST` of `src/objects/code-kind.h`).
    pub(crate) baseline: u32,
    /// Numbers of elements of the data for deoptimization.
    pub(crate) deoptimization: DeoptimizationLayout,
}

/// The place of machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instructions {
    /// In the `Code`, at this offset (Node.js 18).
    Inside(u64),
    /// In an `InstructionStream`, which has its `Code` at offset `code`. The `Code` has the stream and the address of the first instruction.
    Stream { code: u64, stream: u64, start: u64 },
}

/// Numbers of elements in `DeoptimizationData`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeoptimizationLayout {
    pub(crate) literals: u64,
    pub(crate) shared: u64,
    pub(crate) inlining_positions: u64,
}

/// `kREGEXP` of `CODE_KIND_LIST`.
pub(crate) const REGEXP: u32 = 3;
/// `FixedArray`, `ByteArray` and all arrays of their kind: the number of elements, a small integer, and the first element.
pub(crate) const ARRAY_LENGTH: u64 = 8;
pub(crate) const ARRAY_DATA: u64 = 16;
/// The distance from JS_FUNCTION_TYPE to the last type of functions (`src/objects/instance-type.h`: constructors of arrays and the like), for
/// releases that do not export it.
const FUNCTION_TYPES: u16 = 16;

impl Layout {
    /// Returns the layout that constants describe; `None` where they are of a V8 whose words are not 8 bytes, or of another release.
    pub(crate) fn new(constants: &Constants) -> Option<Self> {
        let is = |name, value| constants.get(name) == Some(value);
        let has_known_words = is("TaggedSize", 8)
            && is("HeapObjectTag", 1)
            && is("HeapObjectTagMask", 3)
            && is("SmiTag", 0)
            && is("SmiShiftSize", 31)
            && is("SmiValueShift", 1);
        let has_known_frames = constants.0.get("off_fp_function") == Some(&-16)
            && constants.0.get("off_fp_context") == Some(&-8)
            && constants.0.get("off_fp_bytecode_array") == Some(&-32)
            && constants.0.get("off_fp_bytecode_offset") == Some(&-40);
        let has_known_strings = is("FirstNonstringType", 0x80)
            && is("StringRepresentationMask", 7)
            && is("OneByteStringTag", 8)
            && constants.field("String__length") == Some(12)
            && constants.field("SeqOneByteString__chars") == Some(16)
            && constants.field("FixedArrayBase__length").is_none_or(|length| length == ARRAY_LENGTH);
        if !has_known_words || !has_known_frames || !has_known_strings {
            return None;
        }
        let name = constants.field("Script__name")?;
        let line_ends = constants.field("Script__line_ends")?;
        let script = [
            "SharedFunctionInfo__script",
            "SharedFunctionInfo__raw_script",
            "SharedFunctionInfo__script_or_debug_info",
        ];
        Some(Self {
            types: Types::new(constants)?,
            function_shared: constants.field("JSFunction__shared")?,
            shared: SharedLayout {
                // The first field in all releases.
                data: 8,
                name: constants.field("SharedFunctionInfo__name_or_scope_info")?,
                script: script.iter().find_map(|name| constants.field(name))?,
                wrapped: constants.field("SharedFunctionInfoWrapper__shared_info").unwrap_or(8),
            },
            script: ScriptLayout {
                source: constants.field("Script__source")?,
                name,
                // `src/objects/script.tq`: the fields behind `name`, and the one behind `line_ends`.
                line_offset: name + 8,
                column_offset: name + 16,
                line_ends,
                id: line_ends + 8,
            },
            bytecode: BytecodeLayout {
                data: constants.field("BytecodeArray__data")?,
                // `src/objects/bytecode-array.tq`; behind `wrapper` since Node.js 22.
                positions: constants.field("BytecodeArray__wrapper").map_or(32, |wrapper| wrapper + 8),
            },
            code: CodeLayout::new(constants)?,
            // `src/objects/shared-function-info.tq`: its first field.
            interpreter_data_bytecode: 8,
            map_instance_type: constants.field("Map__instance_type")?,
        })
    }
}

impl Types {
    fn new(constants: &Constants) -> Option<Self> {
        let function = constants.kind("JSFunction")?;
        let of = |name| constants.get(name).and_then(|value| u16::try_from(value).ok());
        let code = constants.kind("Code")?;
        Some(Self {
            map: constants.kind("Map")?,
            first_function: of("FirstJSFunctionType").unwrap_or(function),
            last_function: of("LastJSFunctionType").or(function.checked_add(FUNCTION_TYPES))?,
            shared: constants.kind("SharedFunctionInfo")?,
            shared_wrapper: constants.kind("SharedFunctionInfoWrapper"),
            script: constants.kind("Script")?,
            scope_info: constants.kind("ScopeInfo")?,
            bytecode: constants.kind("BytecodeArray")?,
            interpreter_data: constants.kind("InterpreterData")?,
            code,
            instructions: constants.kind("InstructionStream").unwrap_or(code),
            fixed_array: constants.kind("FixedArray")?,
        })
    }
}

impl CodeLayout {
    fn new(constants: &Constants) -> Option<Self> {
        let wrapper = constants.field("Code__wrapper");
        let (data, positions) = match wrapper {
            // `src/objects/code.h` since Node.js 22: data, positions, wrapper.
            Some(wrapper) => (wrapper.checked_sub(16)?, wrapper.checked_sub(8)?),
            None => (16, 24),
        };
        let has_stream = constants.kind("InstructionStream").is_some();
        // Node.js 20 exports no offsets of these; `src/objects/code.h` of V8 11.3.
        let field = |name, unknown: Option<u64>| constants.field(name).or(unknown.filter(|_| has_stream));
        let instructions = match has_stream {
            true => Instructions::Stream {
                code: 8,
                stream: field("Code__instruction_stream", Some(32))?,
                start: field("Code__instruction_start", Some(40))?,
            },
            false => Instructions::Inside(constants.field("Code__instruction_start")?),
        };
        let number = |name, unknown| constants.get(name).unwrap_or(unknown);
        let shared = constants.get("DeoptimizationDataWrappedSharedFunctionInfoIndex");
        Some(Self {
            data,
            positions,
            flags: field("Code__flags", Some(48))?,
            size: field("Code__instruction_size", Some(56))?,
            instructions,
            kind_mask: u32::try_from(constants.get("CodeKindFieldMask")?).ok()?,
            baseline: u32::try_from(constants.get("CodeKindBaseline")?).ok()?,
            deoptimization: DeoptimizationLayout {
                // Those of V8 10.2, which exports none.
                literals: number("DeoptimizationDataLiteralArrayIndex", 2),
                shared: shared.unwrap_or_else(|| number("DeoptimizationDataSharedFunctionInfoIndex", 6)),
                inlining_positions: number("DeoptimizationDataInliningPositionsIndex", 7),
            },
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The columns of the list of constants.
    pub(crate) const VERSIONS: [&str; 4] = ["18", "20", "22", "24"];

    /// Returns the constants of a release of Node.js.
    pub(crate) fn constants(version: &str) -> Constants {
        let column = VERSIONS.iter().position(|known| *known == version).unwrap();
        let lines = include_str!("constants.txt").lines().filter(|line| !line.starts_with('#'));
        let of_line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Some((words[0].to_owned(), words[1 + column].parse().ok()?))
        };
        Constants(lines.filter_map(of_line).collect())
    }

    #[test]
    fn each_release_has_its_layout() {
        let layouts = VERSIONS.map(|version| Layout::new(&constants(version)).unwrap());
        let of = |part: fn(&Layout) -> u64| layouts.each_ref().map(part);
        assert_eq!(of(|layout| layout.function_shared), [24, 24, 32, 32]);
        assert_eq!(of(|layout| layout.shared.name), [16, 16, 16, 24]);
        assert_eq!(of(|layout| layout.shared.script), [32, 32, 32, 40]);
        assert_eq!(of(|layout| layout.bytecode.positions), [32, 32, 24, 24]);
        assert_eq!(of(|layout| layout.code.data), [16, 16, 8, 8]);
        assert_eq!(of(|layout| layout.code.flags), [48, 48, 48, 52]);
        assert_eq!(of(|layout| layout.code.size), [40, 56, 52, 56]);
        assert_eq!(of(|layout| layout.code.deoptimization.shared), [6, 6, 6, 7]);
        assert_eq!(layouts[0].code.instructions, Instructions::Inside(128));
        for layout in &layouts[1..] {
            assert_eq!(layout.code.instructions, Instructions::Stream { code: 8, stream: 32, start: 40 });
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for name in
            ["TaggedSize", "type_ScopeInfo__SCOPE_INFO_TYPE", "off_fp_function", "class_Script__name__Object"]
        {
            let mut missing = constants("20");
            missing.0.remove(name);
            assert_eq!(Layout::new(&missing), None, "{name}");
        }
        let mut compressed = constants("20");
        compressed.0.insert("TaggedSize".to_owned(), 4);
        assert_eq!(Layout::new(&compressed), None);
        let mut far = constants("20");
        far.0.insert("class_Script__source__Object".to_owned(), i32::MAX);
        assert_eq!(Layout::new(&far), None);
        assert_eq!(Layout::new(&Constants::default()), None);
    }
}
