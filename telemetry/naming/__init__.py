"""Names of addresses from their sources: CSV and hosts files, DNS, exports of Kubernetes and Consul."""
