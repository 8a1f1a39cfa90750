package main

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestUIOfRedacted serves redacted archives: the events say who redacted them, when and why, as far as the archive does, and have no
// payload.
func TestUIOfRedacted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.lash")
	command(t, "export", "testdata/archives/answered.lash", "-o", file, "--redact", "model.replied", "--reason", "asked to", "--as", "ann")
	without := filepath.Join(dir, "b.lash")
	runtest.NoError(t, forgeArchive([]string{file, without, "unrecorded"}))
	for file, want := range map[string]bool{file: true, without: false} {
		out := startUI(t, file)
		session := onlySession(t, out)
		line := redactedLine(t, out, session)
		if got := strings.Contains(line, `"redaction":{"by":"ann","time":"20`) && strings.Contains(line, `"reason":"asked to"}`); got != want {
			t.Errorf("%s: got %s, want who redacted it: %t", file, line, want)
		}
		if strings.Contains(line, `"payload":{"iteration"`) {
			t.Errorf("%s: got %s, want no payload of the reply", file, line)
		}
		if status, body := out.ask(t, out.Token, "GET", "/v1/sessions/"+session+"/view"); status != 200 || !strings.Contains(body, `"messages"`) {
			t.Errorf("view: got %d %s", status, body)
		}
	}
}

// onlySession is the session of a served archive.
func onlySession(t *testing.T, out uiOutput) string {
	t.Helper()
	_, body := out.ask(t, out.Token, "GET", "/v1/sessions")
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, found := strings.Cut(id, `"`)
	if !found {
		t.Fatalf("sessions: got %s, want one", body)
	}
	return id
}

// redactedLine is the first commit of the stream of events that has a redacted event.
func redactedLine(t *testing.T, out uiOutput, session string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(out.URL, "/")+"/v1/sessions/"+session+"/events", nil)
	runtest.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+out.Token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	runtest.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"redacted":"`) {
			return lines.Text()
		}
	}
	t.Fatalf("events: got no redacted one: %v", lines.Err())
	return ""
}
