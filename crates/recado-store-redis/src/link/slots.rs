//! Slots: the slot of a key, and the map of slots to masters.

use redis::Value;

use super::url::Address;

pub(crate) const SLOTS: u16 = 16_384;

/// No node has it.
const NONE: u16 = u16::MAX;

/// The owner of each slot.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct SlotMap {
    pub masters: Vec<Address>,
    /// By slot, a place in `masters`.
    holders: Vec<u16>,
}

impl SlotMap {
    /// Reads the answer to `CLUSTER SLOTS`. A server that does not know its own name leaves it out: then it is
    /// the one that was asked.
    pub fn read(answer: &Value, asked: &Address) -> Option<SlotMap> {
        let Value::Array(ranges) = answer else { return None };
        let mut map = SlotMap { masters: Vec::new(), holders: vec![NONE; SLOTS.into()] };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &range[..] else {
                return None;
            };
            let [host, Value::Int(port), ..] = &master[..] else { return None };
            let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
            let host =
                host.filter(|name| !name.is_empty() && name != "?").unwrap_or_else(|| asked.host.clone());
            let master = map.place(Address { host, port: u16::try_from(*port).ok()? });
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            map.holders.get_mut(first..=last)?.fill(master);
        }
        (!map.masters.is_empty()).then_some(map)
    }

    pub fn holder(&self, slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(*self.holders.get(usize::from(slot))?))
    }

    fn place(&mut self, master: Address) -> u16 {
        let at = self.masters.iter().position(|known| *known == master).unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        u16::try_from(at).unwrap_or(NONE)
    }
}

/// The slot of a key: of its hash tag, if it has one that is not empty.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as the Cluster specification asks for. Short keys: a table would not be felt.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_the_slot_that_the_specification_gives_it() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // As `CLUSTER KEYSLOT` answers.
        assert_eq!((slot_of(b"foo"), slot_of(b"somekey")), (12_182, 11_058));
        assert_eq!(slot_of(b"recado:{0}:jobs"), slot_of(b"0"));
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    #[test]
    fn the_map_is_read_and_a_nameless_server_is_the_one_that_was_asked() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |first, last, host: Value, port| {
            let node = Value::Array(vec![host, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(last), node])
        };
        let asked = Address { host: "asked".into(), port: 1 };
        let answer = Value::Array(vec![
            range(0, 99, text("10.0.0.1"), 7000),
            range(200, 16_383, Value::Nil, 7001),
            range(100, 149, text("10.0.0.1"), 7000),
        ]);
        let map = SlotMap::read(&answer, &asked).expect("a map");
        let at = |slot| map.holder(slot).map(Address::to_string);
        assert_eq!(at(0).as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(at(149).as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(at(150), None);
        assert_eq!(at(16_383).as_deref(), Some("asked:7001"));
        assert_eq!(map.masters.len(), 2);
        for broken in [Value::Nil, Value::Array(vec![]), Value::Array(vec![range(0, 16_384, text("h"), 1)])] {
            assert_eq!(SlotMap::read(&broken, &asked), None);
        }
    }
}
