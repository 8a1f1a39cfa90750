package service

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestActorOf reads user names in the form of servers, and refuses invalid ones.
func TestActorOf(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"alice@acme": "alice", "alice": "alice", "UABC7": "UABC7",
		"": "", "@acme": "", "a b@acme": "", "a.b@acme": "", "timer@acme": "", "Retention@acme": "", "chat@acme": "", "lash-node@acme": "", "a>": "", "\x00": "", strings.Repeat("x", 1<<20): "",
	} {
		got, err := actorOf(user)
		if got != want || (want == "") != errors.As(err, new(*events.FieldError)) {
			t.Errorf("%.20q: got %.20q, %v, want %q", user, got, err, want)
		}
	}
}
