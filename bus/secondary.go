package bus

// Larger reads and bodies use the second connection. Smaller ones delay a heartbeat behind them too little to matter.
const (
	largeCommits = 64
	largeBytes   = 256 << 10
)

// linkOf is the connection for a large read, or for another one. The second connection of a bus is for long histories and large
// bodies. Appends, acks, heartbeats, claims and wakes on the primary connection do not wait behind them. Where it cannot be made, as
// where the server allows one connection, the primary one is used.
func (b *Bus) linkOf(large bool) link {
	if !large {
		return b.primary()
	}
	l := b.secondary.of(b, "long histories")
	if l == nil || !l.nc.IsConnected() {
		return b.primary()
	}
	return *l
}

// Connections is how many connections the bus has made: 1, one more after the first large read, and one for each plugin.
func (b *Bus) Connections() int {
	n := 1
	for _, e := range append(b.pluginLinks.all(), &b.secondary) {
		if e.made.Load() != nil {
			n++
		}
	}
	return n
}
