//! What may not have reached the agent does not count, and what reads the same counts as one.

use super::*;

#[test]
fn what_must_be_read_counts_only_where_some_of_it_has_reached_the_agent() {
    let mut shop = Shop::new();
    let stock = place("shop", "get_stock");
    shop.read(stock.clone(), "10");
    shop.unsure = vec![stock.name()];
    assert_eq!(shop.code(), Some(Code::ReadingRequired), "its only answer may not have arrived");
    shop.read(stock.clone(), "9");
    assert_eq!(shop.code(), None, "one of the two has arrived; which, the dispatch sees to");
    shop.unsure = vec![stock.name(), stock.name()];
    assert_eq!(shop.code(), Some(Code::ReadingRequired), "neither may have arrived");
    let other = Place { arguments: "{\"item\":\"tea\"}".into(), ..stock };
    shop.read(other, "3");
    assert_eq!(shop.code(), None, "another answer of the tool has");
}

#[test]
fn a_condition_does_not_see_what_may_not_have_reached_the_agent() {
    let mut shop = Shop::of(&on_stock());
    let (stock, other) = (place("shop", "get_stock"), Place { tool: "get_stock".into(), ..place("shop", "x") });
    let tea = Place { arguments: "{\"item\":\"tea\"}".into(), ..other };
    shop.read(tea.clone(), FEW);
    shop.read(stock.clone(), PLENTY);
    assert_eq!(shop.code(), None);
    shop.unsure = vec![stock.name()];
    assert_eq!(shop.code(), Some(Code::ReadingUnusable), "the latest was read once, and may not have arrived");
    shop.read(stock.clone(), PLENTY);
    assert_eq!(shop.code(), None, "it read the same before, and one of the two has arrived");
    shop.unsure = vec![tea.name(), tea.name()];
    shop.read(stock.clone(), PLENTY);
    assert_eq!(shop.code(), None, "it is not the latest");
    shop.unsure = vec![stock.name(), stock.name()];
    assert_eq!(shop.code(), Some(Code::ReadingUnusable), "neither may have arrived");
}

#[test]
fn of_what_may_not_have_reached_the_agent_it_is_not_known_what_a_write_carries() {
    let pact = asking_for_nothing();
    let mut shop = Shop::of(&pact.replace(r#"rests_on = ["get_stock", "mail/read"]"#, r#"rests_on = "carried""#));
    let mail = place("mail", "read");
    shop.read(mail.clone(), "Sell at till FRONT-DOOR");
    shop.read(mail.clone(), "Sell nowhere");
    shop.unsure = vec![mail.name()];
    shop.till = "front-door";
    shop.world.feed("Till::\"front-door\"", Some(json!({"open": true})));
    let effect = shop.ask();
    assert_eq!(shop.refused(effect, &[(mail, Some("Sell nowhere"))]), Some(Code::ReadingChanged));
}

#[test]
fn reading_the_same_again_changes_nothing_for_a_write_that_waits() {
    let mut shop = Shop::new();
    let stock = place("shop", "get_stock");
    shop.read(stock.clone(), "9");
    shop.read(stock.clone(), "10");
    let effect = shop.ask();
    for _ in 0..3 {
        shop.read(stock.clone(), "10");
        assert_eq!(shop.refused(effect, &[(stock.clone(), Some("10"))]), None, "every version since reads the same");
        assert_eq!(shop.refused(effect, &[(stock.clone(), Some("9"))]), Some(Code::ReadingChanged));
    }
    shop.unsure = vec![stock.name()];
    let unsure = shop.ask();
    shop.read(stock.clone(), "10");
    assert_eq!(shop.refused(unsure, &[(stock.clone(), Some("10"))]), None, "and so does the one before it");
    shop.read(stock.clone(), "8");
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some("10"))]), Some(Code::ReadingChanged), "no longer known");
    assert_eq!(shop.refused(effect, &[(stock.clone(), Some("8"))]), Some(Code::ReadingChanged));
    // The first of those that read the same, without being sure of it: the one before reads differently.
    let mut shop = Shop::new();
    shop.read(stock.clone(), "9");
    shop.read(stock.clone(), "10");
    shop.unsure = vec![stock.name()];
    let unsure = shop.ask();
    shop.read(stock.clone(), "10");
    assert_eq!(shop.refused(unsure, &[(stock, Some("10"))]), Some(Code::ReadingChanged), "the agent may know 9");
}
