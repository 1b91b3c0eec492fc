"""The journals, which store the broker's decisions and give them back after a restart."""
