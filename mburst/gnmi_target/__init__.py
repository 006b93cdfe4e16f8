"""A gNMI server for a forwarding Linux host: the queues, counters and neighbours of its ports under OpenConfig's paths.

    netlink      interfaces, their counters and neighbours
    qdisc        one queue: its depth and the kernel's counters of it
    watermarks   the depth of every port's queue, read each millisecond
    schema       OpenConfig's paths that are served, and matching of paths with wildcards
    tree         paths → values of this machine
    encoding     values → messages, in each encoding
    requests     what clients ask for, checked and bounded
    snapshots    Get
    streams      Subscribe: ONCE, POLL, SAMPLE with a true timer, ON_CHANGE
    changes      depths on their way from the reading thread to a subscription
    writer       the one way from a subscription to its client
    server       the gRPC service, user and password
    log          lines for the operator, bounded

It serves the network namespace that it runs in, and changes nothing there. ../listening/ has its addresses, its
certificates and what limits its connections.
"""
