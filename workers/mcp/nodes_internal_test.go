package mcp

import (
	"testing"
	"time"
)

// TestServersOfOneName has two nodes announce different servers of one name: a third one keeps what it has until no node announces that.
func TestServersOfOneName(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.offers["srv"] = &offer{Server: "srv", hash: "one"}
	node := func(name, hash string, at time.Time) {
		s.others[name] = announcement{Node: name, Servers: map[string]string{"srv": hash}, at: at}
	}
	now := time.Now()
	node("a", "one", now)
	node("b", "two", now)
	if s.lacksLocked("srv", "one") || s.lacksLocked("srv", "two") {
		t.Error("want what is there to stay")
	}
	node("a", "one", now.Add(-2*goneAfter))
	if !s.lacksLocked("srv", "two") {
		t.Error("after the first node is gone: want what the other one has")
	}
}
