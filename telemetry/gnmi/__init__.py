"""gNMI, from the wire to rows: sessions to many switches, and the meaning of their paths.

    config    gnmic's YAML → targets and subscriptions
    session   a target's channel: connect, subscribe, survive
    decode    notifications → values of known and unknown leaves → rows
    vendors   tables of paths → columns, one TOML file per vendor
    rows      rows → Arrow, bounded
    limits    how much of this host one device may use

This package knows no store. The protocol: gNMI specification 0.10 (openconfig/reference, rpc/gnmi).
"""
