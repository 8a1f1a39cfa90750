package httpapi

import (
	"fmt"
	"maps"
	"net"
	"testing"

	"pgregory.net/rapid"
)

// fake is a connection without a network.
type fake struct {
	net.Conn
	from   string
	closed bool
}

func (f *fake) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", f.from)
	return a
}

func (f *fake) Close() error {
	f.closed = true
	return nil
}

// TestConnectionsStayWithinLimits draws accepts, authentications, requests and closes. After each step the limits are
// kept and all counts are right. No known connection was closed during a request, or while an anonymous one was open.
func TestConnectionsStayWithinLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := &Config{MaxConnections: rapid.IntRange(1, 6).Draw(t, "max"), MaxConnectionsPerAddress: rapid.IntRange(1, 3).Draw(t, "per address"), MaxConnectionsPerCaller: rapid.IntRange(1, 3).Draw(t, "per caller"), AnonymousTimeout: 1 << 60}
		a := newConnections(cfg)
		var open []*conn
		works := make(map[*conn]bool)
		pick := func() *conn { return open[rapid.IntRange(0, len(open)-1).Draw(t, "which")] }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			known, anonymous, working := 0, 0, 0
			for _, c := range open {
				if c.known {
					known++
				} else {
					anonymous++
				}
				if works[c] {
					working++
				}
			}
			action := rapid.IntRange(0, 4).Draw(t, "action")
			switch {
			case action == 0 || len(open) == 0:
				came := &fake{from: fmt.Sprintf("10.0.0.%d:1", rapid.IntRange(1, 4).Draw(t, "address"))}
				c := a.admit(came)
				if full := working == cfg.MaxConnections; (c == nil) != full {
					t.Fatalf("got in: %v, with %d of %d connections at work", c != nil, working, cfg.MaxConnections)
				}
				if c != nil {
					open = append(open, c)
				}
			case action == 1:
				c, caller := pick(), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "caller")
				was, had := c.known, 0
				for _, o := range open {
					if o != c && o.known && o.caller == caller {
						had++
					}
				}
				if is := c.known && c.caller == caller; c.authenticate(caller) != (is || had < cfg.MaxConnectionsPerCaller) {
					t.Fatalf("caller with %d connections beside this one: refused wrongly, or not at all", had)
				}
				works[c] = works[c] || !was && c.known
			case action == 2:
				c := pick()
				c.setIdle(true)
				works[c] = false
			case action == 3:
				c := pick()
				c.setIdle(false)
				works[c] = c.known
			case action == 4:
				c := pick()
				if rapid.Bool().Draw(t, "expires") {
					c.expire()
				} else {
					_ = c.Close()
				}
				if gone := c.Conn.(*fake).closed; gone {
					works[c] = false
				}
			}
			var left []*conn
			for _, c := range open {
				switch {
				case !c.Conn.(*fake).closed:
					left = append(left, c)
				case works[c]:
					t.Fatal("a connection with a request was closed for another one")
				case action == 0 && c.known && anonymous > 0:
					t.Fatal("a known connection was closed while an anonymous one was open")
				}
			}
			open = left
			checkCounts(t, a, cfg, open)
		}
		for _, c := range open {
			_ = c.Close()
		}
		checkCounts(t, a, cfg, nil)
	})
}

func checkCounts(t *rapid.T, a *connections, cfg *Config, open []*conn) {
	anonymous, idle, from, of := 0, 0, make(map[string]int), make(map[string]int)
	for _, c := range open {
		if c.known {
			of[c.caller]++
		}
		switch {
		case !c.known:
			anonymous++
			from[c.address.String()]++
		case c.element != nil:
			idle++
		}
	}
	if a.open != len(open) || a.open > cfg.MaxConnections || a.anonymous.Len() != anonymous || a.idle.Len() != idle || len(a.byAddress) != len(from) {
		t.Fatalf("got %d open, %d anonymous, %d idle, want %d, %d, %d", a.open, a.anonymous.Len(), a.idle.Len(), len(open), anonymous, idle)
	}
	if limit := max(cfg.MaxConnections/2, 1); anonymous > limit {
		t.Fatalf("got %d anonymous connections, limit is %d", anonymous, limit)
	}
	if !maps.Equal(a.byCaller, of) {
		t.Fatalf("got %v connections by caller, want %v", a.byCaller, of)
	}
	for address, n := range from {
		if n > cfg.MaxConnectionsPerAddress {
			t.Fatalf("got %d anonymous connections of %s, limit is %d", n, address, cfg.MaxConnectionsPerAddress)
		}
	}
}

// TestAddressOf treats an IPv6 /64 as one client, and an IPv4 address in every form.
func TestAddressOf(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3/32", "[::ffff:10.1.2.3]:4": "10.1.2.3/32", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64", "[2001:db8:1:2::1]:7": "2001:db8:1:2::/64",
		"[fe80::1%lo]:7": "fe80::/64",
	} {
		if got := addressOf(from).String(); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}
