//! Somebody who can write to the folder, and has no key, edits a call that cools, and has the gate sign it into a snapshot.

use crate::effects::world::{World, done};
use serde_json::json;

#[test]
fn attack_a_cooling_call_is_edited_on_disk_and_signed_into_the_next_snapshot() {
    // In the newest tile, and in one that is full.
    for more in [0, 300] {
        let mut world = World::new();
        let (verdict, cooling) = world.act("payer-1", "cooled", json!({"account": "b", "amount": 100}));
        assert_eq!(verdict, "in_flight");
        for balance in 0..more {
            world.feed("Account::\"a\"", json!({"status": "active", "balance": balance}));
        }
        world.gate().snapshot().unwrap();
        world.restart();
        let edited = world.edit_log(b"\"amount\":100", b"\"amount\":499");
        assert_eq!(edited, 1, "the body is where it was thought to be");
        // The gate opens by its snapshot, which was signed before: what it holds in memory is right, and the file is not.
        world.restart();
        let refused = world.gate().snapshot().unwrap_err().to_string();
        assert!(
            refused.contains(&format!("(entry {cooling})")) && refused.contains("not the entry that the log signed"),
            "{refused}"
        );
        let read = world.gate().read_log(cooling).unwrap_err().to_string();
        assert!(read.contains("not the entry that the log signed"), "{read}");
        // Put back, so that nothing shows it; what is paid is what was decided.
        world.edit_log(b"\"amount\":499", b"\"amount\":100");
        world.restart();
        world.outside.answer(done());
        world.pass(2_001);
        world.until(cooling, "settled");
        assert_eq!(world.balance("b"), 400);
        assert_eq!(world.asked(), 1);
        world.audited();
    }
}
