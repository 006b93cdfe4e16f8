"""A gNMI server over a Linux box that forwards: its ports' queues, counters and neighbours under OpenConfig's paths.

    netlink      interfaces, their counters and neighbours
    qdisc        one queue: its depth and what the kernel counted of it
    watermarks   the depth of every port's queue, read each millisecond
    schema       OpenConfig's paths that are served, and which of them a path with wildcards means
    tree         paths → values of this machine
    encoding     values → messages, in each encoding
    requests     what clients ask for, checked and bounded
    snapshots    Get
    streams      Subscribe: ONCE, POLL, SAMPLE with a true timer, ON_CHANGE
    changes      depths on their way from the reading thread to a subscription
    writer       the one way from a subscription to its client
    listening    addresses and sockets
    tls          certificates
    door         connections: how many, TLS, why one is refused
    server       the gRPC service, user and password
    log          lines for whoever runs it, bounded

It serves the namespace that it runs in, and changes nothing there.
"""
