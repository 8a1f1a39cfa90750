package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestServersOfOneName has two nodes announce different servers of one name: a third one keeps what it has until no node announces that.
func TestServersOfOneName(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	runtest.NoError(t, err)
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

// TestOffersInPages has a node ask for an offer that one message does not hold.
func TestOffersInPages(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	runtest.NoError(t, err)
	o := &offer{Server: "srv", Instructions: "first"}
	for n := range 1500 {
		o.Tools = append(o.Tools, tool{Name: fmt.Sprintf("srv__%04d", n), Description: strings.Repeat("<", n), Schema: json.RawMessage(`{"description":"` + strings.Repeat("&", 2000) + `"}`)})
	}
	s.offers["srv"] = o.seal()
	answers := 0
	got, err := offered("srv", func(request string) ([]byte, error) {
		answers++
		data := s.answer([]byte(request))
		if len(data) > events.MaxCommitBytes {
			t.Errorf("got an answer of %d bytes", len(data))
		}
		return data, nil
	})
	if err != nil || got.seal().hash != o.hash || got.Instructions != "first" || answers < 2 {
		t.Errorf("got %d tools in %d answers and %v, want the offer", len(got.Tools), answers, err)
	}
	for _, request := range []string{"none", "srv 1501", "srv -1"} {
		if none, err := offered("srv", func(string) ([]byte, error) { return s.answer([]byte(request)), nil }); err != nil || none.Server != "" {
			t.Errorf("%s: got %+v and %v, want no offer", request, none, err)
		}
	}
}
