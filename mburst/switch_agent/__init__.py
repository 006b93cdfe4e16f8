"""A gNMI server over a Linux box that forwards: its ports' queues, counters and neighbours under OpenConfig's paths.

    netlink      interfaces, their counters and neighbours
    watermarks   the depth of every port's queue, read each millisecond
    tree         OpenConfig's paths → values of this machine
    streams      a subscription: ONCE, POLL, SAMPLE with a true timer, ON_CHANGE
    server       the gRPC service, TLS, user and password

It serves the namespace that it runs in, and changes nothing there.
"""
