//! Messages in the protocol buffers' wire format, as far as exports need it.

/// A message. A field with the default value of its type may be left out or written, as readers take both for the same.
#[derive(Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// A number of the type `fixed64`.
    pub(super) fn fixed(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3 | 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn block(&mut self, field: u64, content: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(content.len() as u64);
        self.bytes.extend_from_slice(content);
        self
    }

    pub(super) fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.block(field, &message.bytes)
    }

    pub(super) fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.block(field, text.as_bytes())
    }

    pub(super) fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) -> &mut Self {
        let mut content = Self::default();
        for value in values {
            content.varint(value);
        }
        self.block(field, &content.bytes)
    }
}
