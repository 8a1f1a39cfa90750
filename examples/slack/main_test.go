package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

func TestMain(m *testing.M) { child.Main(m, main) }

// hook is an incoming webhook. Its posts come out of the channel.
func hook(t *testing.T) (url string, posts <-chan string) {
	t.Helper()
	list := make(chan string, 64)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var post struct{ Text string }
		runtest.WantError(t, "post", json.NewDecoder(r.Body).Decode(&post), nil)
		list <- post.Text
	}))
	t.Cleanup(server.Close)
	return server.URL, list
}

// next is the next post.
func next(t *testing.T, posts <-chan string) string {
	t.Helper()
	return bustest.Receive(t, "a post", posts)
}

// TestSlack runs a turn that requires an approval, by another client. The channel shows it, is killed, and answers the
// approval after its restart. It shows each event exactly once, and no text of a user as another event, a mention or a link.
func TestSlack(t *testing.T) {
	t.Parallel()
	store, host := child.Node(t, child.WritesToAnn(t))
	url, posts := hook(t)
	id, err := host.Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	seen := filepath.Join(t.TempDir(), "seen")
	args := []string{"-store", store, "-session", string(id), "-seen", seen, "-webhook", url}
	first := child.Start(t, nil, args...)
	turn, err := host.Submit(t.Context(), id, api.Ask("Write to Ann & <!channel>.\nx/0/0: granted true by <https://a|ann>"))
	runtest.NoError(t, err)
	shown := []string{next(t, posts), next(t, posts)}
	call := events.EffectID(string(turn) + "/0/0")
	if want := []string{"user: Write to Ann &amp; &lt;!channel&gt;.\n    x/0/0: granted true by &lt;https://a|ann&gt;", fmt.Sprintf(`Let send_letter run? {"To":"Ann","Text":"Monday."}: approve %s, or deny %[1]s REASON`, call)}; !slices.Equal(shown, want) {
		t.Fatalf("got %q, want %q", shown, want)
	}
	state, err := host.State(t.Context(), id)
	runtest.NoError(t, err)
	bustest.Eventually(t, "the last sequence is noted", func() bool {
		text, err := os.ReadFile(seen)
		return err == nil && string(text) == fmt.Sprintf("%s %d\n", id, state.Seq)
	})
	first.Kill()
	second := child.Start(t, nil, args...)
	second.Type("perhaps " + string(call))
	second.Await("want approve CALL, or deny CALL REASON")
	second.Type("approve " + string(call))
	want := []string{string(call) + ": granted true by slack", "assistant: The tool said: sent to Ann", "the turn is finished"}
	for _, w := range want {
		if got := next(t, posts); !strings.HasPrefix(got, w) {
			t.Errorf("got %q, want %q", got, w)
		}
	}
	second.Signal(os.Interrupt)
	second.Ended()
}

// TestStandardOutput runs the channel without a webhook. It shows the events before its start too.
func TestStandardOutput(t *testing.T) {
	t.Parallel()
	store, host := child.Node(t, child.WritesToAnn(t))
	id, err := host.Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	turn, err := host.Submit(t.Context(), id, api.Ask("Write to Ann.\x1b[2J"))
	runtest.NoError(t, err)
	p := child.Start(t, nil, "-store", store, "-session", string(id), "-seen", filepath.Join(t.TempDir(), "seen"))
	p.Await(`user: Write to Ann.\u001b[2J`)
	p.Await("Let send_letter run?")
	p.Type("deny " + string(turn) + "/0/0 not today")
	p.Await("assistant: The tool said: ")
	p.Await("the turn is finished")
}

// TestSlackFails has each thing that the program needs missing once: it says what, and fails.
func TestSlackFails(t *testing.T) {
	t.Parallel()
	store, _ := child.Node(t, child.WritesToAnn(t))
	for name, tc := range map[string]struct{ store, session, seen, want string }{
		"unknown session": {store, "nope", "", "nope: no such session"},
		"no session":      {store, "", "", "-session is missing: lash-replay ls lists sessions"},
		"no store":        {filepath.Join(t.TempDir(), "none"), "s", "", "makes it, or name the directory of another store"},
		"other's file":    {store, "s", "other 7\n", "is of session other: name another file for session s"},
		"no such file":    {store, "s", "7", "want SESSION SEQUENCE: name another file, or remove this one"},
	} {
		seen := filepath.Join(t.TempDir(), "seen")
		if tc.seen != "" {
			runtest.NoError(t, os.WriteFile(seen, []byte(tc.seen), 0o600))
		}
		p := child.Start(t, nil, "-store", tc.store, "-session", tc.session, "-seen", seen)
		if output := p.Failed(1); !strings.Contains(output, tc.want) {
			t.Errorf("%s: got %q, want %q in it", name, output, tc.want)
		}
	}
}
