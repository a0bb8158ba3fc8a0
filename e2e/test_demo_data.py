"""The data that the demo begins with is itself without a fault, by the checks that run every night."""

from e2e.shop import Shop


def test_the_books_of_the_seeded_shop_agree_with_themselves(shop: Shop) -> None:
    assert shop.rows("SELECT count(*) > 20 AS many FROM cases") == [{"many": True}]
    assert shop.faults_of_seed == []


def test_a_balance_that_is_not_its_journal_would_be_found(shop: Shop) -> None:
    moved = """
        UPDATE order_lines SET claimed_minor = claimed_minor + %s
        WHERE line_id = (SELECT line_id FROM line_claims ORDER BY line_id LIMIT 1)
    """
    assert shop.change(moved, -1) == 1
    try:
        assert [fault.partition(": ")[0] for fault in shop.faults()] == ["claimed"]
    finally:
        shop.change(moved, 1)
