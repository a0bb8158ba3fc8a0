-- What a shop states of a line's delivery after it stated the order: when the customer got it, in which parcel. The newest
-- counts; times to return run from it. Nothing of an order's money is here.
CREATE TABLE order_deliveries (
    merchant_id uuid NOT NULL,
    order_id uuid NOT NULL,
    line_ref text NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    delivered_at timestamptz,
    shipment text CHECK (length(shipment) BETWEEN 1 AND 100),
    stated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, order_id, line_ref, n),
    CONSTRAINT something_is_stated CHECK (num_nonnulls(delivered_at, shipment) > 0),
    FOREIGN KEY (merchant_id, order_id, line_ref) REFERENCES order_lines (merchant_id, order_id, line_ref)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON order_deliveries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON order_deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON order_deliveries TO onceback_console, onceback_worker;
GRANT INSERT ON order_deliveries TO onceback_console;
