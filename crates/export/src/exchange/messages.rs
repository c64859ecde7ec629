//! Tables of protobuf messages.

/// Defines messages, each with a table of its fields: name, type and number as in `.proto` files, and the kind as prost calls it.
macro_rules! messages {
    ($(
        $(#[$of_message:meta])*
        $public:vis $message:ident {
            $($(#[$of_field:meta])* $field:ident: $type:ty = $number:tt ($($kind:tt)+),)*
        }
    )*) => {$(
        $(#[$of_message])*
        #[derive(Clone, PartialEq, prost::Message)]
        $public struct $message {
            $(
                $(#[$of_field])*
                #[prost($($kind)+, tag = $number)]
                $public $field: $type,
            )*
        }
    )*};
}

pub(super) use messages;
