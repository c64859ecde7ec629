//! One row of the unwind table, detached from the bytes it was read from.

use alloc::boxed::Box;
use alloc::vec::Vec;

use gimli::{EndianSlice, LittleEndian, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow};

use crate::Architecture;

/// A rule for the canonical frame address (DWARF 5, section 6.4.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CfaRule {
    /// A register and an offset in bytes.
    RegisterOffset {
        register: u8,
        offset: i64,
    },
    Expression(Box<[u8]>),
}

/// The location of the caller's value of a register.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Location {
    /// Nowhere. For the return address: there is no caller.
    Undefined,
    /// In the register still.
    Same,
    /// Saved at CFA + offset.
    AtOffset(i64),
    /// CFA + offset itself.
    Offset(i64),
    /// In another register.
    Register(u8),
    /// At the address that the expression gives.
    AtExpression(Box<[u8]>),
    /// The value of an expression.
    Expression(Box<[u8]>),
}

/// A row: how to get from a frame to its caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Row {
    pub(crate) cfa: CfaRule,
    /// Rules by DWARF number; registers without one follow the ABI.
    pub(crate) locations: Box<[(u8, Location)]>,
    /// The column of the return address.
    pub(crate) return_address: u8,
    /// The CIE says that the kernel built this frame (augmentation `S`): the address above is where the thread was
    /// interrupted, an instruction pointer.
    pub(crate) signal_frame: bool,
    /// The encoding of expressions.
    pub(crate) encoding: gimli::Encoding,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

impl Row {
    /// Copies what gimli computed.
    pub(crate) fn from_gimli<'a, S>(
        architecture: Architecture,
        section: &S,
        cie: &gimli::CommonInformationEntry<Slice<'a>>,
        row: &UnwindTableRow<usize>,
    ) -> Result<Self, gimli::Error>
    where
        S: UnwindSection<Slice<'a>>,
    {
        let expression = |expression: &UnwindExpression<usize>| {
            let bytes = expression.get(section)?.0.slice();
            Ok::<Box<[u8]>, gimli::Error>(Box::from(bytes))
        };
        let cfa = match row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register, offset } => CfaRule::RegisterOffset {
                register: u8::try_from(register.0)
                    .map_err(|_| gimli::Error::UnsupportedRegister(register.0.into()))?,
                offset: *offset,
            },
            gimli::CfaRule::Expression(bytes) => CfaRule::Expression(expression(bytes)?),
        };
        let number = |register: gimli::Register| {
            u8::try_from(register.0).ok().filter(|&register| register < architecture.register_count())
        };
        let return_address = number(cie.return_address_register())
            .ok_or(gimli::Error::UnsupportedRegister(cie.return_address_register().0.into()))?;
        let mut locations = Vec::with_capacity(row.registers().count());
        for (register, rule) in row.registers() {
            // Vector registers and pseudo registers (the state of pointer authentication) hold no address.
            let Some(register) = number(*register) else { continue };
            let location = match rule {
                RegisterRule::SameValue => Location::Same,
                RegisterRule::Offset(offset) => Location::AtOffset(*offset),
                RegisterRule::ValOffset(offset) => Location::Offset(*offset),
                RegisterRule::Register(from) => number(*from).map_or(Location::Undefined, Location::Register),
                RegisterRule::Expression(bytes) => Location::AtExpression(expression(bytes)?),
                RegisterRule::ValExpression(bytes) => Location::Expression(expression(bytes)?),
                _ => Location::Undefined,
            };
            locations.push((register, location));
        }
        Ok(Self {
            cfa,
            locations: locations.into(),
            return_address,
            signal_frame: cie.is_signal_trampoline(),
            // The address size of a CIE is input; expressions of 64-bit code have 8 bytes.
            encoding: gimli::Encoding { address_size: 8, ..cie.encoding() },
        })
    }

    /// Returns true if the return address is undefined: the frame has no caller.
    pub(crate) fn is_outermost(&self) -> bool {
        self.location(self.return_address) == Some(&Location::Undefined)
    }

    /// The rule for a register, if the row has one.
    pub(crate) fn location(&self, register: u8) -> Option<&Location> {
        self.locations.iter().find(|(known, _)| *known == register).map(|(_, location)| location)
    }
}
