package httpapi

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestTrafficForgetsCallers: callers without traffic are removed. A caller above its limit stays until its rate is below
// the limit.
func TestTrafficForgetsCallers(t *testing.T) {
	t.Parallel()
	tr := newTraffic[string](600, "caller", false)
	now := time.Now()
	over := tr.limiter("over", now)
	deductBytes(over, 1200)
	for i := range 5 * maxIdle {
		tr.limiter(fmt.Sprint(i), now)
	}
	if len(tr.clients) > maxIdle || tr.limiter("over", now) != over {
		t.Errorf("got %d callers kept, and the one over its limit: %v, want at most %d with it", len(tr.clients), tr.limiter("over", now) == over, maxIdle)
	}
	if err := tr.check(tr.limiter("over", now), now); err == nil {
		t.Error("over its limit: got no refusal")
	}
	if err := tr.check(tr.limiter("over", now), now.Add(2*time.Minute)); err != nil {
		t.Errorf("after two minutes: got %v", err)
	}
}

// TestTrafficOfManyAddresses has more addresses with traffic than the table holds. The table stays bounded, an address
// above its limit stays refused, and a new one is not.
func TestTrafficOfManyAddresses(t *testing.T) {
	t.Parallel()
	tr := newTraffic[netip.Prefix](600, "address", true)
	now := time.Now()
	flood := addressOf("192.0.2.1:9")
	deductBytes(tr.limiter(flood, now), 1200)
	for i := range 3 * maxIdle {
		from := addressOf(fmt.Sprintf("[2001:db8:%x::1]:9", i))
		if err := tr.check(tr.limiter(from, now), now); err != nil {
			t.Fatalf("address %d: got %v, want its own bytes", i, err)
		}
		deductBytes(tr.limiter(from, now), 100)
	}
	if len(tr.clients) > maxIdle {
		t.Errorf("got %d addresses, want at most %d", len(tr.clients), maxIdle)
	}
	if tr.check(tr.limiter(flood, now), now) == nil {
		t.Error("the address above its limit: got no refusal")
	}
}
