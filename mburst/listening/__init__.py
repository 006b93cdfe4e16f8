"""Servers for other machines: where they listen, and who may connect.

addresses    addresses and sockets
tls          certificates
door         connections: their number, TLS, reasons of refusals
"""
