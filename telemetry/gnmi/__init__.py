"""gNMI, from the wire to rows: sessions to many switches, and what their paths mean to mburst.

    config    gnmic's YAML → targets and subscriptions
    session   a target's channel: connect, subscribe, survive
    decode    notifications → values of known and unknown leaves → rows
    vendors   tables of paths → columns, one TOML file a vendor
    rows      rows → Arrow, bounded
    limits    what one device may take of this host

Knows no store. The protocol: gNMI specification 0.10 (openconfig/reference, rpc/gnmi).
"""
