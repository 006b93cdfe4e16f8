"""Names of addresses from where they are kept: CSV and hosts files, DNS, exports of Kubernetes and Consul."""
