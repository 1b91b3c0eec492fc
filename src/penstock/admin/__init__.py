"""The admin API of a server, for programs: `penstock.admin.client`."""
